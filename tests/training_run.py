"""For the tests that drive `cohort train`: a small run, and what its job directory tells."""

import json

from program import ProgramTest

SMALL = ("--network mnist-cnn --dataset synthetic --image-size 12 --samples 500 --test-samples 80 "
         "--batch-size 40 --grains 8 --threads 2").split()


class TrainingTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.job = self.folder / "job"

    def train(self, *arguments, job=None, code=0, **options):
        return self.run_program("train", "--job-dir", job or self.job, *arguments, code=code, **options)

    def summary(self, job=None):
        return json.loads(((job or self.job) / "summary.json").read_text())

    def checkpoints(self, job=None):
        return sorted(((job or self.job) / "checkpoints").glob("*.safetensors"))
