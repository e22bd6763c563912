#!/usr/bin/env python3
"""configuration_test.py PROGRAM [unittest options]: --config, -o, config.yaml, and the names of older programs."""

import re
import unittest
from pathlib import Path

from training_run import SMALL, TrainingTest


class Configuration(TrainingTest):
    def config(self, text, name="run.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def setting(self, name, job=None):
        text = ((job or self.job) / "config.yaml").read_text()
        return re.search(rf"^{name}: (.*)$", text, re.MULTILINE).group(1)

    def refused(self, pattern, *arguments, code=2):
        done = self.run_program(*arguments, code=code)
        self.assertRegex(done.stderr, rf"\Acohort: .*{pattern}.*\n\Z")
        return done

    def test_every_file_in_configs_is_a_run(self):
        files = sorted((Path(__file__).resolve().parent.parent / "configs").glob("*.yaml"))
        self.assertLessEqual({"mnist-fc", "mnist-cnn", "cifar-cnn", "resnet44", "resnet20", "alexnet", "alexnet-flowers",
                              "googlenet", "vgg11", "vgg16", "overfeat"}, {path.stem for path in files})
        for path in files:
            with self.subTest(path.name):
                text = self.run_program("describe", "--config", path).stdout
                self.assertRegex(text, r"(?m)^[\d,]+ parameters")
                batch = re.search(r"^batch-size: (\d+)", path.read_text(), re.MULTILINE).group(1)
                self.assertIn(f"(batch {batch})", text)

    def test_a_file_then_flags_then_o(self):
        path = self.config("""
            network: mnist-fc
            dataset: synthetic
            image_size: 12
            samples: 200
            test-samples: 20
            batch: {size: 20}
            optimizer: {name: momentum, lr: 0.25, momentum: 0.5}
            train-steps: 9
            keep: 4
            eval_every: 2
            shuffle: off
            """)
        self.train("--config", path, "--keep", "5", "--eval_every=3", "-o", "optimizer.lr=0.125", "-o", "eval-every=4",
                   "--train_steps", "3")
        for name, value in (("network", "mnist-fc"), ("batch-size", "20"), ("optimizer", "momentum"), ("lr", "0.125"),
                            ("momentum", "0.5"), ("keep", "5"), ("eval-every", "4"), ("train-steps", "3"),
                            ("shuffle", "false"), ("histograms", "false")):
            self.assertEqual(self.setting(name), value, name)
        self.assertEqual(self.summary()["step"], 3)
        # A run goes on with the stored configuration below the file.
        self.train("--config", self.config("train-steps: 5\n", "more.yaml"))
        self.assertEqual((self.summary()["start_step"], self.summary()["step"]), (3, 5))
        self.assertEqual(self.setting("lr"), "0.125")
        self.assertRegex(self.train("--config", self.config("seed: 2\n", "other.yaml"), code=2).stderr, "--seed 1, not 2")

    def test_the_saved_configuration_repeats_the_run_bit_by_bit(self):
        first, second, third = (self.folder / name for name in ("first", "second", "third"))
        self.train(*SMALL, "--epochs", "2.4", "--optimizer", "rmsprop", "--momentum", "0.3", "--lr", "0.0007", "--seed", "18446744073709551615",
                   "--param-rule", r".*\.bias:lr=2,decay=0", "--weight-decay", "1e-5", "--schedule", "warmup:5+cosine:40",
                   "--average-decay", "0.9", "--data-dir", "a: \"b\" # c", job=first)
        self.assertEqual(self.summary(first)["step"], 30)
        self.train("--config", first / "config.yaml", job=second)
        self.assertEqual(self.summary(second)["weights_hash"], self.summary(first)["weights_hash"])
        self.assertEqual((second / "config.yaml").read_text(), (first / "config.yaml").read_text())
        self.train("--config", first / "config.yaml", "--threads", "1", "-o", "keep=1", job=third)
        self.assertEqual(self.summary(third)["weights_hash"], self.summary(first)["weights_hash"])
        self.train("--config", first / "config.yaml", "-o", "seed=2", job=self.folder / "other")
        self.assertNotEqual(self.summary(self.folder / "other")["weights_hash"], self.summary(first)["weights_hash"])

    def test_a_run_can_be_repeated_from_the_job_directory_of_a_resumed_one(self):
        self.train(*SMALL, "--train-steps", "10")
        self.train("--train-steps", "20", "--threads", "1")
        self.train("--config", self.job / "config.yaml", job=self.folder / "again")
        self.assertEqual(self.summary(self.folder / "again")["weights_hash"], self.summary()["weights_hash"])

    def test_wrong_files_have_one_sentence_with_their_place(self):
        for text, pattern in (("lr: 1\nbath-size: 3\n", r"run\.yaml:2:1: there is no setting 'bath-size'; did you mean 'batch-size'\?"),
                              ("lr: fast\n", r"run\.yaml:1:5: lr takes a number, not 'fast'"),
                              ("lr: [1]\n", r"run\.yaml:1:5: lr takes one value, not a list"),
                              ("lr: {x: 1}\n", r"run\.yaml:1:5: lr takes one value, not a map"),
                              ("lr: 1\nlr: 2\n", r"run\.yaml:2:1: lr is given a second time"),
                              ("", r"run\.yaml has no settings"),
                              ("lr: [", r"run\.yaml:1:\d+: this is not YAML"),
                              ("workers: 0", r"run\.yaml:1:10: workers must be from 1 to 4096, not 0"),
                              ("network: mnist-cn", r"did you mean 'mnist-cnn'\?")):
            with self.subTest(text):
                for command in ("train", "describe"):
                    self.refused(pattern, command, "--config", self.config(text))
        (self.folder / "binary.yaml").write_bytes(bytes(range(256)))
        self.refused(r"binary\.yaml is no text", "train", "--config", "binary.yaml")
        self.refused(r"no configuration file absent\.yaml", "train", "--config", "absent.yaml")
        self.refused(r"\. is a folder", "train", "--config", ".")
        self.refused(r"--config", "train", "--config", "run.yaml", "--config", "run.yaml")
        self.refused(r"-o takes KEY=VALUE", "train", "-o", "lr")
        self.refused(r"-o: there is no setting 'lrr'; did you mean 'lr'\?", "train", "-o", "lrr=1")
        self.assertEqual(list(self.folder.glob("runs/*")), [])

    def test_a_file_may_come_through_a_pipe(self):
        done = self.run_program("describe", "--config", "/dev/stdin", input="network: mnist-fc\n")
        self.assertIn("79,510 parameters", done.stdout)

    def test_names_of_older_programs_work(self):
        done = self.run_program("train", "--network", "mnist-fc", "--dataset", "fake_data", "--work_dir", self.job, "--batch_num", "4",
                                "--train-batch-size=20", "--learning-rate", "0.01", "--num_intra_threads", "1", "--num-gpus=0",
                                "--checkpoint-num-steps", "2", "--eval-batch-size", "50", "--sync", "--redirect_outerr",
                                "--mode", "1dev", "-o", "samples=100", "-o", "test_samples=10")
        self.assertRegex(done.stdout, r"(?m)^note: --eval-batch-size has no effect: ")
        self.assertRegex(done.stdout, r"(?m)^note: --redirect-outerr has no effect: ")
        for name, value in (("dataset", "synthetic"), ("train-steps", "4"), ("batch-size", "20"), ("lr", "0.01"),
                            ("threads", "1"), ("checkpoint-every", "2")):
            self.assertEqual(self.setting(name), value, name)
        self.assertEqual(len(self.checkpoints()), 2)
        self.run_program("eval", "--job_dir", self.job)
        text = self.run_program("describe", "--num-layers", "20").stdout
        self.assertIn("269,722 parameters", text)
        self.assertNotIn("work-dir", self.run_program("train", "--help").stdout)

    def test_what_older_programs_could_and_this_cannot_has_a_sentence(self):
        for pattern, arguments in ((r"--num-gpus 1 is not possible", ["--num-gpus", "1"]),
                                   (r"--mode 3dev-model is not known; it is 1dev, 2dev-data, 2dev-model, ", ["--mode", "3dev-model"]),
                                   (r"--mode 2dev-model is for 2 workers, not 3; ", ["--mode", "2dev-model", "--workers", "3"]),
                                   (r"--mode 2dev-model is for 2 workers, not 4; ", ["--mode", "2dev-model", "-o", "workers=4"]),
                                   (r"give one of --parallel, --mode and --strategy", ["--mode", "2dev-model", "--parallel", "model"]),
                                   (r"there is no synchronisation rule called 'GOSGD'", ["--sync_rule", "GOSGD"]),
                                   (r"--eval is a command of its own: cohort eval", ["--eval"]),
                                   (r"--batch-norm-decay 0\.9 is not possible yet: it is 0\.997 in resnet20",
                                    ["--num-layers", "20", "--batch-norm-decay", "0.9"]),
                                   (r"--model-dir b is job-dir b here, but that is a already", ["--work_dir", "a", "--model_dir", "b"]),
                                   (r"'gs://bucket' is not on this machine", ["--data-dir", "gs://bucket"]),
                                   (r"'--job-dir=s3://bucket' is not on this machine", ["--job-dir=s3://bucket"])):
            with self.subTest(arguments):
                self.refused(pattern, "train", *arguments)
        self.refused(r"'gs://bucket' is not on this machine", "eval", "--job-dir", "gs://bucket")
        self.refused(r"--learning-rate; ", "describe", "--learning-rate", "1")


if __name__ == "__main__":
    unittest.main()
