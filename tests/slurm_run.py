"""For the tests on a SLURM cluster: it, for all tests of a file, and runs there. A file that imports this ends with code 77 and a
sentence where there can be no cluster."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

from program import PROGRAM, processes_with
from slurm_cluster import SlurmCluster, obstacle
from training_run import TrainingTest

# As small as a run can be that several tasks share.
RUN = ("--network mnist-fc --dataset synthetic --samples 500 --test-samples 80 --batch-size 40 --grains 8 "
       "--checkpoint-every 20").split()
SHORT = [*RUN, "--train-steps", "30"]
LONG = [*RUN, "--train-steps", "400"]  # to be disturbed
SKIPPED = 77

if obstacle():
    print(f"{sys.argv[0]}: not run: {obstacle()}")
    sys.exit(SKIPPED)


# Both are for the files that import them.
def setUpModule():
    SlurmTest.cluster = SlurmCluster()
    SlurmTest.cluster.start()


def tearDownModule():
    SlurmTest.cluster.stop()


class SlurmTest(TrainingTest):
    cluster = None
    hashes = {}

    def setUp(self):
        super().setUp()
        self.cluster.wait_until_idle()
        self.addCleanup(self.cluster.run, "scancel", "--user=root", "--signal=KILL", "--full", check=False)

    def calm(self, run):
        """The weights of this run on one worker, on this machine, that nobody disturbs."""
        if tuple(run) not in self.hashes:
            self.train(*run, "--threads", "1", job=self.folder / "calm")
            self.hashes[tuple(run)] = self.summary(self.folder / "calm")["weights_hash"]
        return self.hashes[tuple(run)]

    def expect_weights(self, run):
        self.assertEqual(self.summary()["weights_hash"], self.calm(run))

    def srun_command(self, *arguments, nodes=3, tasks=2):
        """A step of its own, as in an allocation."""
        return ["srun", "-K", "--mpi=pmix", f"--nodes={nodes}", f"--ntasks-per-node={tasks}", PROGRAM, "train", "--job-dir",
                str(self.job), *map(str, arguments)]

    def srun(self, *arguments, nodes=3, tasks=2, code=0, **options):
        done = self.cluster.run(*self.srun_command(*arguments, nodes=nodes, tasks=tasks), check=False, cwd=self.folder, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def start_srun(self, *arguments, nodes=3, tasks=2):
        process = subprocess.Popen(self.srun_command(*arguments, nodes=nodes, tasks=tasks), cwd=self.folder,
                                   env=self.cluster.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        return process

    def slurm(self, *arguments, code=0):
        return self.run_program("slurm", *arguments, code=code, env=self.cluster.environment)

    def submit(self, run, *options, nodes=3, tasks=2):
        """Without following it; its number."""
        done = self.slurm("submit", "--no-follow", "--nodes", nodes, "--tasks-per-node", tasks, *options, "--", "train",
                          "--job-dir", self.job, *run)
        number = re.search(r"submitted as job (\d+)", done.stdout).group(1)
        self.assertEqual((self.job / "slurm" / "job-id").read_text(), number + "\n")
        return number

    def output(self, number):
        """What the job has printed."""
        path = self.job / "slurm" / f"job-{number}.txt"
        return path.read_text() if path.exists() else ""

    def tasks(self):
        """The processes of the run that is on the cluster, by rank."""
        found = {}
        for process in processes_with("SLURM_CONF", self.cluster.environment["SLURM_CONF"]):
            words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            rank = re.search(r"\0SLURM_PROCID=(\d+)\0", Path(f"/proc/{process}/environ").read_text())
            if rank and words[:2] == [PROGRAM, "train"]:
                found[int(rank.group(1))] = process
        return found

    def workers(self):
        """Processes of a center's workers, by their numbers."""
        found = {}
        for process in processes_with("SLURM_CONF", self.cluster.environment["SLURM_CONF"]):
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                found.update({int(v.split(b"=")[1]): process for v in variables if v.startswith(b"COHORT_WORKER=")})
        return found

    def newest(self):
        return max((int(path.stem.split("-")[1]) for path in self.checkpoints()), default=0)

    def wait_for_checkpoint(self, step):
        self.wait_for(lambda: self.newest() >= step)

    def finish(self, number):
        """The job's end, which must be a good one; how often it was queued again."""
        self.wait_for(lambda: self.cluster.job(number)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"))
        job = self.cluster.job(number)
        self.assertEqual((job["JobState"], job["ExitCode"]), ("COMPLETED", "0:0"), self.output(number))
        return int(job["Restarts"])
