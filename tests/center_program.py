"""Runs with a center, for tests: supervised, or of servers and workers that are started by hand."""

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

from program import processes_with
from training_run import TrainingTest

SMALL = ("--network mnist-fc --dataset synthetic --samples 500 --test-samples 80 --batch-size 40 --grains 8 "
         "--threads 1").split()
# Long enough to be disturbed several times.
LONG = [*SMALL, "--train-steps", "1500", "--checkpoint-every", "50", "--stall-timeout", "3"]
# Steps of one worker each are shorter.
OWN_PACE = [*SMALL, "--train-steps", "6000", "--checkpoint-every", "200", "--log-every", "500", "--stall-timeout", "3",
            "--lr", "0.01"]


class Center(TrainingTest):
    """A test has a folder for temporary files of its own, by which its processes are known and which must be empty at the end."""

    calm_hash = None

    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.addCleanup(self.require_nothing_left)

    def require_nothing_left(self):
        self.wait_for(lambda: not self.alive(), limit=20)
        self.assertEqual([path.name for path in self.temporary.rglob("*")], [])

    def run_program(self, *arguments, code=0, **options):
        return super().run_program(*arguments, code=code, env=self.environment(), **options)

    def start_program(self, *arguments, **options):
        return super().start_program(*arguments, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                                                    "env": self.environment(), **options})

    def environment(self):
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def start(self, *arguments):
        return self.start_program("train", "--job-dir", self.job, *arguments)

    def calm(self):
        """The weights of the long run on one worker that nobody disturbs."""
        if Center.calm_hash is None:
            self.train(*LONG, job=self.folder / "calm")
            Center.calm_hash = self.summary(self.folder / "calm")["weights_hash"]
        return Center.calm_hash

    def alive(self):
        return processes_with("TMPDIR", self.temporary)

    def workers(self):
        """Processes of supervised workers, by their numbers."""
        found = {}
        for process in self.alive():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                found.update({int(v.split(b"=")[1]): process for v in variables if v.startswith(b"COHORT_WORKER=")})
        return found

    def servers(self):
        """Processes of servers, by their numbers."""
        found = {}
        for process in self.alive():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                if words[1:2] == [b"serve"]:
                    found[int(words[words.index(b"--server-index") + 1])] = process
        return found

    def chief(self):
        """The worker that keeps the records, which it has open; nothing while there is none."""
        for worker, process in self.workers().items():
            with contextlib.suppress(OSError):
                if any(os.readlink(file).endswith("/metrics.jsonl") for file in Path(f"/proc/{process}/fd").iterdir()):
                    return worker
        return None

    def newest(self, job=None):
        return max((int(path.stem.split("-")[1]) for path in self.checkpoints(job)), default=0)

    def points(self, kind="train", job=None):
        lines = ((job or self.job) / "metrics.jsonl").read_text().splitlines()
        return [point for point in map(json.loads, lines) if point["kind"] == kind]

    def require_all_shares(self):
        """Of workers that gossip: of each server's shares nothing was lost."""
        for server in self.summary()["center"]["servers"]:
            self.assertEqual(sum(server["shares"].values()), 1 << 62, server)


class ByHand(Center):
    """Servers and workers that nobody supervises."""

    def serve(self, *arguments, index=0, servers=1, job=None, listen="127.0.0.1:0"):
        """A server and its address."""
        process = self.start_program("serve", "--listen", listen, "--servers", servers, "--server-index", index,
                                     "--job-dir", job or self.folder / f"server-{index}", *arguments)
        found = None
        while not found:
            line = process.stdout.readline()
            self.assertTrue(line, process.stderr)
            found = re.fullmatch(rf"server {index} of {servers} listens at (\S+)\n", line)
        return process, found[1]

    def join(self, addresses, *arguments, job=None):
        addresses = addresses if isinstance(addresses, str) else ",".join(addresses)
        return self.start_program("train", "--job-dir", job or self.job, "--join", addresses, *arguments)

    def refused(self, addresses, *arguments, code=2):
        """The sentence by which a worker that cannot come ends, in a few seconds."""
        done = self.run_program("train", "--job-dir", self.folder / "refused", "--join", addresses, *arguments, code=code,
                                timeout=30)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr
