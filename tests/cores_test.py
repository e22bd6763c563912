#!/usr/bin/env python3
"""cores_test.py PROGRAM [unittest options]: which cores a worker has, workers with unequal numbers of them, several workers in a task."""

import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from program import LIMIT, PROGRAM
from training_run import SMALL as SMALL_WITH_THREADS, TrainingTest

SMALL = SMALL_WITH_THREADS[:SMALL_WITH_THREADS.index("--threads")]  # 8 grains
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
CORES = sorted(os.sched_getaffinity(0))


def numbers(text):
    """Of a list as Linux writes it: 0-2,5."""
    found = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def places(process):
    """For each thread of a process, the cores that it may run on."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/status"):
        try:
            found.append(numbers(re.search(r"^Cpus_allowed_list:(.*)$", path.read_text(), re.M).group(1)))
        except FileNotFoundError:
            continue
    return found


class CoresTest(TrainingTest):
    def calm(self, *run):
        """The weights of a run on one worker."""
        shutil.rmtree(self.folder / "calm", ignore_errors=True)
        self.train(*run, job=self.folder / "calm")
        return self.summary(self.folder / "calm")["weights_hash"]

    def mpirun(self, *contexts, code=0, environment=None):
        """Each (tasks, flags...) with flags of its own for them, in one run."""
        command = list(MPIRUN)
        for number, (tasks, *flags) in enumerate(contexts):
            command += [":"] if number else []
            command += ["-np", str(tasks), PROGRAM, "train", "--job-dir", str(self.job), *map(str, flags)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=False,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def processes(self):
        """Of the workers, as their logs have it."""
        found = []
        for path in sorted((self.job / "logs").glob("worker-*.txt")):
            found += re.findall(r", process (\d+):", path.read_text())[-1:]
        return found


class Visible(CoresTest):
    def test_one_core_is_one_lane(self):
        for environment, flags in (({}, ["--devices-visible", CORES[-1]]), ({"COHORT_DEVICES_VISIBLE": str(CORES[-1])}, []),
                                   ({"COHORT_DEVICES_VISIBLE": "strange"}, ["--devices-visible", CORES[-1]])):
            with self.subTest(flags=flags, **environment):
                shutil.rmtree(self.job, ignore_errors=True)
                done = self.train(*SMALL, "--train-steps", "1", *flags, env={**os.environ, **environment})
                self.assertRegex(done.stdout, r"grains on 1 lane\n")
                self.assertNotIn("visible", (self.job / "config.yaml").read_text(), "it is no part of the run")
        self.run_program("eval", "--job-dir", self.job, "--devices-visible", CORES[0])

    def test_as_the_launcher_binds(self):
        done = subprocess.run(["taskset", "-c", str(CORES[0]), PROGRAM, "train", "--job-dir", self.job, *SMALL, "--train-steps", "1"],
                              cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=True)
        self.assertRegex(done.stdout, r"grains on 1 lane\n")

    def test_all_that_it_starts_keeps_to_them(self):
        process = self.start_program("train", "--job-dir", self.job, *SMALL, "--train-steps", "100000", "--workers", "2",
                                     "--devices-visible", CORES[0], stdout=subprocess.DEVNULL)
        self.wait_for(lambda: len(self.processes()) == 2)
        for worker in [str(process.pid), *self.processes()]:
            self.assertEqual({frozenset(place) for place in places(worker)}, {frozenset(CORES[:1])}, worker)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 75)

    def test_a_core_that_is_not_there_is_refused(self):
        wrong = max(CORES) + 1000
        for environment, source, flags in (({}, "--devices-visible", ["--devices-visible", f"{CORES[0]},{wrong}"]),
                                           ({"COHORT_DEVICES_VISIBLE": f"{CORES[0]},{wrong}"}, "COHORT_DEVICES_VISIBLE", [])):
            done = self.train(*SMALL, *flags, code=2, env={**os.environ, **environment})
            self.assertRegex(done.stderr, rf"\Acohort: {source} {CORES[0]},{wrong} names core {wrong}, which .*; it may use [\d,-]+\n\Z")
        self.assertFalse(self.job.exists())
        self.assertIn("takes numbers and ranges", self.train(*SMALL, "--devices-visible", "all", code=2).stderr)


class Pinned(CoresTest):
    @unittest.skipIf(len(CORES) < 2, "this machine has one core, and nothing to divide")
    def test_workers_divide_the_cores(self):
        pair = ",".join(map(str, CORES[:2]))
        process = self.start_program("train", "--job-dir", self.job, *SMALL, "--train-steps", "100000", "--workers", "2",
                                     "--devices-visible", pair, stdout=subprocess.DEVNULL)
        self.wait_for(lambda: len(self.processes()) == 2)

        def own(worker):
            return {min(place) for place in places(worker) if len(place) == 1}
        self.wait_for(lambda: all(len(own(worker)) == 1 for worker in self.processes()))
        first, second = map(own, self.processes())
        self.assertEqual(first | second, set(CORES[:2]))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 75)


class Limited(CoresTest):
    """By a control group of its own, as containers have."""

    def group(self, cpus):
        """Its file of processes."""
        name = f"cohort-test-{os.getpid()}"
        first, second = Path("/sys/fs/cgroup/cpu") / name, Path("/sys/fs/cgroup") / name
        quota = round(100000 * cpus)
        try:
            if first.parent.is_dir():
                if not first.is_dir():
                    first.mkdir()
                    self.addCleanup(first.rmdir)
                (first / "cpu.cfs_period_us").write_text("100000")
                (first / "cpu.cfs_quota_us").write_text(str(quota))
                return first / "cgroup.procs"
            if not second.is_dir():
                second.mkdir()
                self.addCleanup(second.rmdir)
            (second / "cpu.max").write_text(f"{quota} 100000")
            return second / "cgroup.procs"
        except OSError as error:
            self.skipTest(f"control groups with a limit cannot be made here: {error}")

    def lanes(self, cpus, *flags):
        procs = self.group(cpus)
        shutil.rmtree(self.job, ignore_errors=True)
        done = subprocess.run(["sh", "-c", f'echo $$ > {procs} && exec "$@"', "sh", PROGRAM, "train", "--job-dir", str(self.job), *SMALL,
                               "--train-steps", "1", *flags], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"(\d+) lanes?\n", done.stdout).group(1))

    def test_lanes_do_not_exceed_it(self):
        self.assertEqual(self.lanes(1.6), 1)
        self.assertEqual(self.lanes(1.6, "--threads", "2"), 2, "as somebody says")
        self.assertEqual(self.lanes(len(CORES) + 3), min(8, len(CORES)))


class Unequal(CoresTest):
    def test_grains_follow_the_lanes(self):
        run = [*SMALL, "--train-steps", "6", "--optimizer", "adam", "--average-decay", "0.9"]
        expected = self.calm(*run)
        done = self.mpirun((1, *run, "--threads", "3"), (1, *run, "--threads", "1"))
        self.assertEqual(self.summary()["weights_hash"], expected)
        self.assertIn("batch 40 in 8 grains on 2 workers\n", done.stdout)
        self.assertIn("note: grains are divided by the workers' lanes: worker 0 has 6 of them on 3 lanes, "
                      "worker 1 has 2 of them on 1 lane\n", done.stdout)
        self.assertEqual([worker["lanes"] for worker in self.summary()["workers"]], [3, 1])

    def test_the_same_bits_for_any_division(self):
        run = [*SMALL, "--train-steps", "5", "--eval-every", "2"]
        expected = self.calm(*run)
        for division in ("8", "7,1", "1,7", "5,3", "3,1,4", "1,1,1,5", "2,3,2,1"):
            with self.subTest(division):
                shutil.rmtree(self.job, ignore_errors=True)
                done = self.train(*run, "--workers", division.count(",") + 1, "--grains-per-worker", division)
                self.assertEqual(self.summary()["weights_hash"], expected)
                self.assertIn("grains are divided as --grains-per-worker says: ", done.stdout)
        self.assertIn("workers 0-2 have 1 of them on 1 lane, worker 3 has 5 of them",
                      self.train(*run, "--workers", "4", "--grains-per-worker", "1,1,1,5", "--threads", "2",
                                 job=self.folder / "shown").stdout)

    def test_a_run_goes_on_with_another_division(self):
        run = [*SMALL, "--optimizer", "momentum", "--average-decay", "0.9"]
        expected = self.calm(*run, "--train-steps", "12")
        for steps, flags in ((3, ["--workers", "3", "--grains-per-worker", "5,1,2"]), (5, ["--workers", "3"]),
                             (7, ["--workers", "2"]), (9, ["--workers", "4", "--grains-per-worker", "1,1,1,5"]),
                             (10, ["--grains-per-worker", "2,2,2,2"]), (12, ["--workers", "1"])):
            done = self.train(*run, "--train-steps", steps, *flags)
            self.assertEqual("as --grains-per-worker says" in done.stdout, steps in (3, 5, 9, 10), done.stdout)
        self.assertEqual(self.summary()["weights_hash"], expected)

    def test_a_worker_that_dies_is_started_again(self):
        run = [*SMALL, "--train-steps", "12", "--checkpoint-every", "4"]
        expected = self.calm(*run)
        done = self.train(*run, "--workers", "3", "--grains-per-worker", "1,2,5",
                          env={**os.environ, "COHORT_CRASH_AT": "renamed.safetensors:2", "COHORT_CRASH_WORKER": "0"})
        self.assertIn("worker 0 was ended by signal 9", done.stderr)
        self.assertEqual(self.summary()["weights_hash"], expected)

    def test_numbers_that_do_not_add_up_are_refused(self):
        for flags, sentence in (
                (["--workers", "2", "--grains-per-worker", "4,2,2"],
                 "--grains-per-worker 4,2,2 is 8 grains on 3 workers, and a step has 8 on 2; give 2 numbers that add up to 8"),
                (["--workers", "3", "--grains-per-worker", "4,2,1"],
                 "--grains-per-worker 4,2,1 is 7 grains on 3 workers, and a step has 8 on 3; give 3 numbers that add up to 8"),
                (["--workers", "2", "--grains-per-worker", "8,0"], "needs at least one grain for each worker"),
                (["--workers", "2", "--grains-per-worker", "4,"], "takes a number of grains for each worker, such as 4,2,2, not ''"),
                (["--workers", "2", "--grains-per-worker", "4-4"], "not '4-4'"),
                (["--workers", "2", "--grains-per-worker", "2147483647,2147483647"], "at most 10000000"),
                (["--workers", "2", "--sync", "local", "--grains-per-worker", "4,4"], "with --sync local workers are equals"),
                (["--workers", "2", "--sync", "async", "--grains-per-worker", "4,4"], "a center deals grains out by itself"),
                (["--workers", "2", "--parallel", "model", "--grains-per-worker", "4,4"], "compute every grain together")):
            with self.subTest(flags):
                done = self.train(*SMALL, "--train-steps", "1", *flags, code=2)
                self.assertRegex(done.stderr, r"\Acohort: [^\n]*\n\Z")
                self.assertIn(sentence, done.stderr)
        self.assertFalse(self.job.exists())


class WorkersPerTask(CoresTest):
    def test_the_same_bits(self):
        run = [*SMALL, "--train-steps", "6", "--optimizer", "adam", "--eval-every", "3", "--checkpoint-every", "4"]
        expected = self.calm(*run)
        for tasks, each in ((2, 2), (1, 3), (3, 2), (2, 1), (1, 1)):
            with self.subTest(tasks=tasks, each=each):
                shutil.rmtree(self.job, ignore_errors=True)
                self.mpirun((tasks, *run, "--workers-per-task", each))
                self.assertEqual(self.summary()["weights_hash"], expected)
                self.assertEqual(len(self.summary()["workers"]), tasks * each)
                if tasks * each == 1:
                    continue
                names = {path.name for path in (self.job / "logs").glob("*.txt")}
                self.assertEqual(names, {f"worker-{worker}.txt" for worker in range(tasks * each)})
                of_task = self.processes()
                self.assertEqual(len(set(of_task)), tasks)
                self.assertEqual(of_task, [process for process in dict.fromkeys(of_task) for _ in range(each)])
        self.mpirun((2, *run, "--workers-per-task", "2", "--train-steps", "8"))
        self.assertEqual(self.summary()["start_step"], 6)
        self.assertEqual(self.summary()["weights_hash"], self.calm(*run, "--train-steps", "8"))

    def test_a_divided_network_and_other_rules(self):
        for rule in (["--parallel", "hybrid"], ["--sync", "local", "--avg-freq", "2"], ["--wire", "fp16"]):
            with self.subTest(rule):
                run = [*SMALL, "--train-steps", "4", *rule]
                for job in (self.job, self.folder / "processes"):
                    shutil.rmtree(job, ignore_errors=True)
                self.train(*run, "--workers", "4", job=self.folder / "processes")
                self.mpirun((2, *run, "--workers-per-task", "2"))
                self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "processes")["weights_hash"])

    @unittest.skipIf(len(CORES) < 2, "this machine has one core, and nothing to divide")
    def test_workers_of_a_task_divide_its_cores(self):
        process = subprocess.Popen([*MPIRUN, "-np", "1", PROGRAM, "train", "--job-dir", str(self.job), *SMALL, "--train-steps", "100000",
                                    "--workers-per-task", "2", "--devices-visible", ",".join(map(str, CORES[:2]))], cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        self.wait_for(lambda: len(self.processes()) == 2)
        number = self.processes()[0]
        self.wait_for(lambda: {frozenset(place) for place in places(number) if len(place) == 1} ==
                      {frozenset([core]) for core in CORES[:2]})
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(LIMIT), 75)
        self.assertTrue(self.checkpoints(), "stopped after a checkpoint")

    def test_killed_it_goes_on(self):
        run = [*SMALL, "--train-steps", "12", "--checkpoint-every", "4", "--workers-per-task", "2"]
        expected = self.calm(*run[:-2])
        self.mpirun((2, *run), code=137, environment={"COHORT_CRASH_AT": "renamed.safetensors:2", "COHORT_CRASH_WORKER": "1"})
        self.assertEqual(len(self.checkpoints()), 2)
        self.mpirun((2, *run))
        self.assertEqual(self.summary()["weights_hash"], expected)

    def test_a_failure_is_one_sentence_with_its_code(self):
        done = self.mpirun((2, *SMALL, "--workers-per-task", "2", "--dataset", "mnist", "--data-dir", self.folder / "none"), code=2)
        self.assertRegex(done.stderr, r"(?m)^cohort: worker 0: .*none")
        done = self.mpirun((2, *SMALL, "--workers-per-task", "5"), code=2)
        self.assertIn("10 workers need a grain each", done.stderr)
        done = self.mpirun((1, *SMALL, "--workers-per-task", "2"), (1, *SMALL, "--workers-per-task", "3"), code=2)
        self.assertIn("tasks were given --workers-per-task 2 and 3; give all the same", done.stderr)
        done = self.mpirun((1, *SMALL), (1, *SMALL, "--workers-per-task", "2"), code=2)
        self.assertIn("tasks were given --workers-per-task 1 and 2", done.stderr)
        # The loss is no number: all workers see it at once, and nobody's memory goes while others still write there.
        done = self.mpirun((2, *SMALL, "--workers-per-task", "2", "--train-steps", "50", "--optimizer", "sgd", "--lr", "1e6"), code=2)
        self.assertRegex(done.stderr, r"(?m)^cohort: worker \d: the (loss is|weights are) no longer (a number|finite)")

    def test_without_a_launcher_it_is_refused(self):
        done = self.train(*SMALL, "--workers-per-task", "3", code=2)
        self.assertEqual(done.stderr, "cohort: --workers-per-task 3 is for tasks that srun or mpirun has started, and this process is none; "
                                      "--workers 3 starts workers here\n")
        self.assertIn("with --join it is one worker", self.train(*SMALL, "--workers-per-task", "3", "--join", "127.0.0.1:1", code=2).stderr)
        self.assertFalse(self.job.exists())


if __name__ == "__main__":
    unittest.main()
