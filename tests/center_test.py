#!/usr/bin/env python3
"""center_test.py PROGRAM [unittest options]: workers with a center: the bits of bulk synchronous training, kills, strangers."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time
import unittest
from pathlib import Path

from program import LIMIT, PROGRAM, ProgramTest, processes_with
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

    def reach(self, process, condition):
        """Waits for this to happen while the process lives."""
        def happened():
            if process.poll() is not None:
                self.fail("it ended before that:\n" + "".join(process.communicate()))
            return condition()
        self.wait_for(happened)

    def finish(self, process, code=0, limit=LIMIT):
        output, errors = process.communicate(timeout=limit)
        self.assertEqual(process.returncode, code, output + errors)
        self.assertNotIn("internal error", errors)
        return output, errors

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


class SameBits(Center):
    def results(self, job):
        summary = self.summary(self.folder / job)
        return {key: summary[key] for key in ("weights_hash", "loss", "test_loss", "accuracy", "step")}

    def test_bulk_synchronous_with_any_servers_and_workers(self):
        run = [*SMALL, "--train-steps", "30", "--receipt-every", "5"]
        self.train(*run, job=self.folder / "alone")
        self.train(*run, "--workers", "2", job=self.folder / "mpi")
        expected = self.results("alone")
        self.assertEqual(self.results("mpi"), expected)
        for servers in (1, 2):
            for workers in (1, 2, 3):
                with self.subTest(servers=servers, workers=workers):
                    job = f"{servers}-{workers}"
                    self.train(*run, "--servers", servers, "--workers", workers, job=self.folder / job)
                    self.assertEqual(self.results(job), expected)
                    for other in ("alone", "mpi"):
                        self.assertEqual(self.run_program("verify", other, job).stdout,
                                         "equal: 6 receipts, of steps 5 to 30\n")

    def test_optimizers_with_slots_and_averages(self):
        run = [*SMALL, "--train-steps", "20", "--lr", "0.001", "--eval-every", "10"]
        for more in (["--optimizer", "adam", "--average-decay", "0.9"], ["--optimizer", "momentum", "--schedule", "steps:5,0.5"],
                     ["--optimizer", "nesterov"], ["--optimizer", "adagrad"], ["--optimizer", "rmsprop", "--momentum", "0.9"]):
            with self.subTest(more):
                self.train(*run, *more, job=self.folder / more[1])
                self.train(*run, *more, "--servers", "2", "--workers", "2", job=self.folder / f"{more[1]}-center")
                self.assertEqual(self.results(f"{more[1]}-center"), self.results(more[1]))

    def test_a_lone_worker_at_its_own_pace_is_plain_training(self):
        for optimizer in ("sgd", "adam"):
            run = [*SMALL, "--optimizer", optimizer, "--lr", "0.005", "--train-steps", "40"]
            self.train(*run, job=self.folder / optimizer)
            for more in (["async"], ["async", "--servers", "2"], ["ssp", "--staleness", "0"], ["async", "--scale-stale"]):
                with self.subTest(optimizer, rule=more):
                    shutil.rmtree(self.job, ignore_errors=True)
                    self.train(*run, "--sync", *more)
                    here, there = self.results("job"), self.results(optimizer)
                    # The worker hears of its last two steps at once.
                    self.assertAlmostEqual(here.pop("loss"), there.pop("loss"), delta=1e-9)
                    self.assertEqual(here, there)

    def test_other_weights_to_begin_with_and_a_length_in_epochs(self):
        self.train(*SMALL, "--train-steps", "3", "--seed", "7", job=self.folder / "before")
        run = [*SMALL, "--epochs", "2", "--init-from", self.checkpoints(self.folder / "before")[-1]]
        self.train(*run, job=self.folder / "plain")
        self.train(*run, "--workers", "2", "--servers", "2", "--histograms", job=self.folder / "center")
        self.assertEqual(self.results("center"), self.results("plain"))
        self.assertEqual(self.summary(self.folder / "center")["step"], 25)  # 500 samples, 40 at a time

    def test_nobody_in_reserve_is_bulk_synchronous(self):
        run = [*SMALL, "--train-steps", "40"]
        self.train(*run, job=self.folder / "alone")
        self.train(*run, "--sync", "backup", "--backups", "0", "--workers", "3", "--servers", "2")
        self.assertEqual(self.results("job"), self.results("alone"))


class OwnPace(Center):
    def require_whole_records(self, steps, every):
        """Each point once, in order, up to the end."""
        summary = self.summary()
        self.assertEqual((summary["step"], summary["interrupted"]), (steps, False))
        reached = [point["step"] for point in self.points()]
        self.assertEqual(reached, sorted(set(reached)))
        self.assertEqual(reached[-1], steps)
        # Nobody waits for a chief that is slow: it may hear of many steps at once.
        intervals = [step // every for step in reached]
        self.assertEqual(intervals, sorted(set(intervals)))
        self.assertEqual(self.newest(), steps)

    def test_workers_that_do_not_wait(self):
        for rule in (["async"], ["async", "--scale-stale"], ["ssp", "--staleness", "1"]):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                done = self.train(*SMALL, "--lr", "0.01", "--train-steps", "400", "--log-every", "40", "--workers", "2",
                                  "--servers", "2", "--sync", *rule)
                self.require_whole_records(400, 40)
                self.assertGreater(self.summary()["accuracy"], 0.7)  # 0.875 without a center
                self.assertIn(f"with --sync {rule[0]} a batch is one worker's step", done.stdout)
                center = self.summary()["center"]
                self.assertEqual((center["rule"], center["dropped"]), (rule[0], 0))
                self.assertEqual(sum(member["works"] for member in center["members"]), 400, "every step once")
                for server in center["servers"]:
                    self.assertEqual((server["updates"], sum(server["staleness"]), server["duplicates"]), (400, 400, 0))

    def test_one_in_reserve(self):
        self.train(*SMALL, "--train-steps", "200", "--log-every", "20", "--workers", "3", "--sync", "backup", "--backups", "1")
        self.require_whole_records(200, 20)
        self.assertGreater(self.summary()["accuracy"], 0.7)
        center = self.summary()["center"]
        # Two of three count in each step.
        self.assertEqual(sum(member["works"] for member in center["members"]) - center["dropped"], 2 * 200, center)


class Status(Center):
    def test_a_run_is_looked_at(self):
        process = self.start(*OWN_PACE, "--workers", "2", "--servers", "2", "--sync", "async")
        self.reach(process, lambda: self.newest() >= 200)
        shown = self.run_program("status", self.job).stdout
        self.assertRegex(shown, r"\Aasync: step \d+ of 6000, [12] members?, 0 gradients dropped\n")
        self.assertEqual(shown.count(" (chief): "), 1, shown)
        self.assertEqual(re.findall(r"^server (\d) at unix:\S+: (\d+) parameters,", shown, re.M),
                         [("0", "39755"), ("1", "39755")])
        self.finish(process)
        self.assertIn("no center is running in", self.run_program("status", self.job, code=2).stderr)


class Kills(Center):
    def stop_and_go_on(self, run, wanted):
        process = self.start(*run)
        self.reach(process, lambda: self.newest() >= 200)
        process.send_signal(wanted)
        output, _ = self.finish(process, code=75)
        self.assertIn("stopped by a signal", output)
        reached = self.newest()
        self.assertTrue(self.summary()["interrupted"])
        self.assertEqual(self.summary()["step"], reached)
        output = self.train(*run).stdout
        # Others may have begun when the worker comes that says so, or becomes chief.
        self.assertGreaterEqual(int(re.search(r"resuming at step (\d+)", output)[1]), reached)
        self.assertGreaterEqual(self.summary()["start_step"], reached)
        self.assertFalse(self.summary()["interrupted"])

    def test_stopped_by_a_signal_it_goes_on(self):
        self.stop_and_go_on([*LONG, "--workers", "2", "--servers", "2"], signal.SIGTERM)
        self.assertEqual(self.summary()["weights_hash"], self.calm())
        shutil.rmtree(self.job)
        self.stop_and_go_on([*OWN_PACE, "--workers", "2", "--sync", "async"], signal.SIGINT)
        self.assertEqual(self.summary()["step"], 6000)
        self.assertGreater(self.summary()["accuracy"], 0.7)

    def test_a_signal_to_all_processes_at_once(self):
        process = self.start(*LONG, "--workers", "2", "--servers", "2")
        self.reach(process, lambda: self.newest() >= 100)
        for number in self.alive():
            os.kill(number, signal.SIGTERM)
        self.finish(process, code=75)
        self.assertTrue(self.summary()["interrupted"])
        self.assertEqual(self.summary()["step"], self.newest())
        self.train(*LONG, "--workers", "2", "--servers", "2")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_second_signal_ends_it_at_once(self):
        process = self.start(*LONG, "--workers", "2", "--servers", "1", "--train-steps", "1000000")
        self.reach(process, lambda: self.newest() >= 100)
        for server in self.servers().values():
            os.kill(server, signal.SIGSTOP)  # so that the first one is not enough
        process.send_signal(signal.SIGINT)
        self.reach(process, lambda: "ShdPnd:\t0000000000000000" in Path(f"/proc/{process.pid}/status").read_text())
        process.send_signal(signal.SIGINT)
        self.finish(process, code=130, limit=10)
        self.assertFalse((self.job / "center.txt").exists())
        self.wait_for(lambda: not self.alive(), limit=10)
        self.train(*SMALL, "--checkpoint-every", "0", "--train-steps", self.newest() + 1, "--servers", "1")

    def test_with_other_numbers_it_goes_on_to_the_same_weights(self):
        self.train(*LONG, "--train-steps", "200", "--workers", "3", "--servers", "2")
        self.train(*LONG, "--train-steps", "400", "--workers", "2", "--servers", "1")
        self.train(*LONG, "--servers", "3")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_killed_worker_is_started_again_alone(self):
        process = self.start(*LONG, "--workers", "3", "--servers", "2")
        self.reach(process, lambda: self.newest() >= 100)
        before = self.workers()
        servers = self.servers()
        victim = next(worker for worker in before if worker != self.chief())
        os.kill(before[victim], signal.SIGKILL)
        self.reach(process, lambda: self.workers().get(victim, before[victim]) != before[victim])
        now = self.workers()
        self.assertEqual({w: p for w, p in now.items() if w != victim}, {w: p for w, p in before.items() if w != victim})
        self.assertEqual(self.servers(), servers)
        _, errors = self.finish(process)
        self.assertRegex(errors, rf"warning: worker {victim} was ended by signal 9 \(Killed\) after step \d+; "
                                 r"the others go on, starting it again\n")
        self.assertEqual(errors.count("starting it again"), 1, errors)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_another_worker_becomes_chief(self):
        process = self.start(*LONG, "--workers", "2", "--servers", "1", "--log-every", "100", "--eval-every", "500")
        self.reach(process, lambda: self.newest() >= 300)
        first = self.chief()
        os.kill(self.workers()[first], signal.SIGKILL)
        self.reach(process, lambda: self.chief() not in (first, None))
        reached = self.newest()
        self.reach(process, lambda: self.newest() > reached + 100)  # the new chief keeps checkpoints too
        output, errors = self.finish(process)
        self.assertIn(f"worker {first} was ended by signal 9", errors)
        self.assertEqual(self.summary()["weights_hash"], self.calm())
        self.assertEqual([point["step"] for point in self.points()], list(range(100, 1501, 100)))
        self.assertEqual([point["step"] for point in self.points("test")], [500, 1000, 1500])
        self.assertIn("test accuracy", output)

    def test_another_worker_becomes_chief_of_workers_that_do_not_wait(self):
        process = self.start(*OWN_PACE, "--workers", "3", "--sync", "async")
        self.reach(process, lambda: self.newest() >= 600 and self.points())
        first = self.chief()
        os.kill(self.workers()[first], signal.SIGKILL)
        self.reach(process, lambda: self.chief() not in (first, None))
        self.finish(process)
        reached = [point["step"] for point in self.points()]
        self.assertEqual(reached, sorted(set(reached)))
        self.assertLess(reached[0], 1500)  # what the first one wrote is there
        self.assertEqual(reached[-1], 6000)
        self.assertEqual(self.summary()["step"], 6000)

    def test_chaos_of_its_own(self):
        run = [*LONG, "--train-steps", "4000", "--workers", "3", "--servers", "1", "--chaos", "5", "--max-restarts", "50"]
        output, errors = self.finish(self.start(*run))
        self.assertRegex(output, "chaos: (killing|freezing) worker")
        self.assertIn("starting it again", errors)
        self.train(*LONG, "--train-steps", "4000", job=self.folder / "calm")
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])

    def test_a_frozen_worker_is_found(self):
        process = self.start(*LONG, "--workers", "3", "--servers", "1")
        self.reach(process, lambda: self.newest() >= 100)
        frozen = next(worker for worker in self.workers() if worker != self.chief())
        os.kill(self.workers()[frozen], signal.SIGSTOP)
        _, errors = self.finish(process)
        self.assertRegex(errors, rf"worker {frozen} gave no sign of life for 3 s: it was \w+( \w+)? after step \d+")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_killed_server_of_bulk_synchronous_workers(self):
        for victim in (1, 0):
            with self.subTest(server=victim):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*LONG, "--workers", "2", "--servers", "2")
                self.reach(process, lambda: self.newest() >= 200)
                workers = self.workers()
                os.kill(self.servers()[victim], signal.SIGKILL)
                reached = self.newest()
                self.reach(process, lambda: self.newest() > reached + 100)
                self.assertEqual(self.workers(), workers, "no worker was started again")
                _, errors = self.finish(process)
                self.assertRegex(errors, rf"warning: server {victim} was ended by signal 9 \(Killed\) after step \d+; "
                                         r"starting it again\n")
                self.assertRegex(errors, r"the center had lost its weights; it goes on from the checkpoint of step \d+")
                self.assertEqual(self.summary()["weights_hash"], self.calm())
                steps = [point["step"] for point in self.points()]
                self.assertEqual(steps, sorted(set(steps)))

    def test_a_killed_server_of_workers_that_do_not_wait(self):
        for victim in (1, 0):
            with self.subTest(server=victim):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*OWN_PACE, "--workers", "2", "--servers", "2", "--sync", "async", "--snapshot-every", "0.2s")
                snapshot = self.job / "snapshots" / f"server-{victim}.snapshot"
                self.reach(process, lambda: self.newest() >= 600 and snapshot.exists())
                os.kill(self.servers()[victim], signal.SIGKILL)
                _, errors = self.finish(process)
                self.assertRegex(errors, rf"warning: server {victim} was ended by signal 9 \(Killed\) after step \d+; "
                                         r"starting it again\n")
                self.assertEqual(self.summary()["step"], 6000)
                self.assertGreater(self.summary()["accuracy"], 0.7)
                self.assertFalse((self.job / "snapshots").exists())

    def test_deaths_while_the_chief_does_its_last_duties(self):
        """Which take a while here: an evaluation of many samples, after the last checkpoint."""
        run = [*SMALL, "--test-samples", "200000", "--train-steps", "300", "--checkpoint-every", "50", "--workers", "2",
               "--servers", "2"]
        expected = None
        for rule in ("bsp", "async"):
            for victims in (["chief"], [0], [1], ["chief", 1]):
                with self.subTest(rule=rule, victims=victims):
                    shutil.rmtree(self.job, ignore_errors=True)
                    process = self.start(*run, "--sync", rule)
                    self.reach(process, lambda: self.newest() == 300)
                    servers, workers = self.servers(), self.workers()
                    for victim in victims:
                        os.kill(workers[self.chief()] if victim == "chief" else servers[victim], signal.SIGKILL)
                    start = time.monotonic()
                    self.finish(process)
                    self.assertLess(time.monotonic() - start, 25, "nobody waits for those who cannot come any more")
                    summary = self.summary()
                    self.assertEqual((summary["step"], summary["interrupted"]), (300, False))
                    if rule == "bsp":
                        expected = expected or summary["weights_hash"]
                        self.assertEqual(summary["weights_hash"], expected)

    def test_a_killed_supervisor_leaves_nothing_behind(self):
        process = self.start(*LONG, "--workers", "2", "--servers", "2")
        self.reach(process, lambda: self.newest() >= 100)
        self.assertEqual(len(self.alive()), 5)
        process.kill()
        process.communicate(timeout=LIMIT)
        self.wait_for(lambda: not self.alive(), limit=10)
        # Its sockets go with the next start.
        output = self.train(*LONG, "--workers", "2", "--servers", "1").stdout
        self.assertRegex(output, r"resuming at step \d+")
        self.assertEqual(self.summary()["weights_hash"], self.calm())


    def ask_to_stop(self, *more):
        """A run whose server has been asked to stop, but whose workers stand still."""
        shutil.rmtree(self.job, ignore_errors=True)
        process = self.start(*LONG, "--servers", "1", "--train-steps", "1000000", "--stall-timeout", "60", *more)
        self.reach(process, lambda: self.newest() >= 100)
        workers = self.workers().values()
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        self.reach(process, lambda: "asked to stop" in (self.job / "logs" / "server-0.txt").read_text())
        return process, workers

    def test_a_worker_that_dies_while_the_run_stops(self):
        process, workers = self.ask_to_stop("--workers", "1")
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        _, errors = self.finish(process, code=75)
        self.assertRegex(errors, r"warning: worker 0 was ended by signal 9 \(Killed\) after step \d+, while the run was asked to "
                                 rf"stop; the same command goes on from the checkpoint of step {self.newest()}\n")

    def test_the_first_server_dies_while_the_run_stops(self):
        """The next one is asked as well, and waits for its workers to come back."""
        for rule in ("bsp", "async"):
            with self.subTest(rule):
                process, workers = self.ask_to_stop("--workers", "2", "--sync", rule, "--snapshot-every", "0.1s")
                os.kill(self.servers()[0], signal.SIGKILL)
                self.reach(process, lambda: (self.job / "logs" / "server-0.txt").read_text().count(" listens at ") == 2)
                for worker in workers:
                    os.kill(worker, signal.SIGCONT)
                output, errors = self.finish(process, code=75, limit=40)
                self.assertIn("server 0 was ended by signal 9", errors)
                self.assertIn("stopped by a signal", output)
                self.assertEqual((self.summary()["interrupted"], self.summary()["step"]), (True, self.newest()))

    def test_no_address_stays_where_a_run_fails_or_is_stopped_early(self):
        done = self.train(*SMALL, "--servers", "1", "--train-steps", "10", "--init-from", "nowhere.safetensors", code=3)
        self.assertIn("nowhere.safetensors", done.stderr)
        self.assertFalse((self.job / "center.txt").exists())
        process = self.start(*LONG, "--servers", "1", "--train-steps", "1000000")
        self.reach(process, (self.job / "center.txt").exists)
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)
        self.assertFalse((self.job / "center.txt").exists())

    def test_a_server_that_cannot_start_says_why(self):
        deep = self.temporary / ("x" * 100)
        deep.mkdir()
        self.addCleanup(deep.rmdir)
        done = ProgramTest.run_program(self, "train", *SMALL, "--servers", "1", "--job-dir", self.job, code=2,
                                       env={**self.environment(), "TMPDIR": str(deep)})
        self.assertRegex(done.stderr, rf"\Acohort: the socket's path {deep}/\S+ is too long: .*TMPDIR.*\n\Z")

    def test_without_a_folder_for_temporary_files(self):
        done = ProgramTest.run_program(self, "train", *SMALL, "--servers", "1", "--job-dir", self.job, code=3,
                                       env={**self.environment(), "TMPDIR": "/nonexistent"})
        self.assertRegex(done.stderr, r"\Acohort: cannot use /nonexistent for temporary files: .*\n\Z")


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


class Joining(ByHand):
    def test_workers_come_and_go(self):
        servers = [self.serve(index=index, servers=2) for index in (0, 1)]
        addresses = [address for _, address in servers]
        first = self.join(addresses, *LONG)
        self.reach(first, lambda: self.newest() >= 50)
        second = self.join(addresses, *LONG)
        self.reach(first, lambda: self.newest() >= 700)
        third = self.join(addresses, *LONG)
        reached = self.newest()
        self.reach(first, lambda: self.newest() >= reached + 100)
        second.send_signal(signal.SIGTERM)
        output, _ = self.finish(second, code=75)
        self.assertIn("left the run, which goes on", output)
        output, _ = self.finish(first)
        self.assertIn("test accuracy", output)
        output, _ = self.finish(third)
        self.assertIn("the run is over", output)
        for server, _ in servers:
            self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_the_chief_leaves(self):
        server, address = self.serve()
        first = self.join(address, *LONG)
        self.reach(first, lambda: self.newest() >= 100)
        second = self.join(address, *LONG)
        self.reach(first, lambda: self.newest() >= 300)
        first.send_signal(signal.SIGTERM)
        output, _ = self.finish(first, code=75)
        self.assertIn("left the run, which goes on", output)
        self.assertNotIn("stopped by a signal", output)
        output, _ = self.finish(second)
        self.assertIn("test accuracy", output)
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_server_that_is_asked_to_stop(self):
        for asked in (1, 0):
            servers = [self.serve(index=index, servers=2) for index in (0, 1)]
            addresses = [address for _, address in servers]
            worker = self.join(addresses, *LONG)
            before = self.newest()
            self.reach(worker, lambda: self.newest() >= before + 50)
            other = self.join(addresses, *LONG, job=self.folder / "other")
            self.reach(worker, lambda: ", 2 members," in self.run_program("status", ",".join(addresses)).stdout)
            servers[asked][0].send_signal(signal.SIGTERM)
            output, _ = self.finish(servers[asked][0], code=75)
            self.assertIn("asked to stop: the run ends after a checkpoint", output)
            self.finish(servers[1 - asked][0])
            output, _ = self.finish(worker, code=75)
            self.assertIn("stopped by a signal; go on with: ", output)
            output, _ = self.finish(other, code=75)
            self.assertIn("the run was stopped\n", output)
            self.assertNotIn("goes on", output)
            self.assertEqual(self.summary()["step"], self.newest())
        server, address = self.serve()
        self.finish(self.join(address, *LONG))
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_server_without_a_run_ends_at_once(self):
        server, _ = self.serve()
        server.send_signal(signal.SIGTERM)
        self.finish(server, code=75, limit=5)


    def test_what_a_worker_cannot_use_is_said(self):
        server, address = self.serve()
        worker = self.join(address, *SMALL, "--train-steps", "20", "--workers", "4", "--chaos", "1", "--max-restarts", "2",
                           "--elastic", "--stall-timeout", "5s", "--snapshot-every", "1s", "--eval-batch-size", "100")
        output, _ = self.finish(worker)
        for setting in ("chaos", "max-restarts", "elastic", "stall-timeout", "snapshot-every", "workers"):
            self.assertIn(f"note: {setting} has no effect here: ", output)
        self.assertIn("note: --eval-batch-size has no effect: ", output)
        self.finish(server)

    def test_logs_of_workers_that_share_a_folder(self):
        server, address = self.serve()
        run = [*SMALL, "--sync", "async", "--train-steps", "3000", "--checkpoint-every", "100"]
        first = self.join(address, *run)
        self.reach(first, lambda: self.newest() >= 100)
        second = self.join(address, *run)
        for worker in (first, second, server):
            self.finish(worker)
        logs = sorted((self.job / "logs").iterdir())
        names = sorted(f"worker-{socket.gethostname()}-{worker.pid}.txt" for worker in (first, second))
        self.assertEqual([log.name for log in logs], names)
        for log in logs:
            for line in log.read_text().splitlines():
                self.assertRegex(line, r"^\S+ \S+ step \d+, own step \d+: ")


class Serving(ByHand):
    """A server's folder."""

    def test_it_says_where_the_center_is(self):
        folder = self.folder / "center"
        first, a = self.serve(index=0, servers=2, job=folder)
        second, b = self.serve(index=1, servers=2, job=folder)
        worker = self.join((a, b), *LONG, "--train-steps", "1000000")
        self.reach(worker, lambda: self.newest() >= 50)
        shown = self.run_program("status", folder).stdout
        self.assertRegex(shown, rf"\Absp: step \d+ of 1000000, 1 member, 0 gradients dropped\n(.*\n)+server 0 at {a}: (.*\n)+"
                                rf"server 1 at {b}: ")
        first.send_signal(signal.SIGTERM)
        self.finish(first, code=75)
        self.finish(second)
        self.finish(worker, code=75)
        self.assertIn("no center is running in", self.run_program("status", folder, code=2).stderr)

    def test_it_has_what_status_needs(self):
        folder = self.folder / "center"
        _, address = self.serve(job=folder, listen="0.0.0.0:0")
        port = address.split(":")[1]
        self.assertEqual(self.run_program("status", folder).stdout, f"server 0 at 127.0.0.1:{port}: no run yet\n")

    def test_two_servers_of_one_number_do_not_share_it(self):
        self.serve(job=self.folder / "center")
        done = self.run_program("serve", "--job-dir", self.folder / "center", code=2)
        self.assertRegex(done.stderr, r"\Acohort: another server 0 is using \S+/center; give another --job-dir, .*\n\Z")

    def test_what_it_goes_on_with_is_said(self):
        folder = self.folder / "center"
        server, address = self.serve("--snapshot-every", "0.1s", job=folder)
        worker = self.join(address, *OWN_PACE, "--sync", "async", "--train-steps", "1000000")
        self.reach(worker, (folder / "server-0.snapshot").exists)
        self.end(worker)
        self.end(server)
        (folder / "server-0.snapshot.tmp-123").write_text("half")
        (folder / "server-1.snapshot.tmp-123").write_text("another's")
        server = self.start_program("serve", "--job-dir", folder)
        self.assertRegex(server.stdout.readline(), rf"\Agoes on with async, step \d+, from {folder}/server-0.snapshot; ")
        self.assertEqual([path.name for path in folder.glob("*.snapshot.tmp-*")], ["server-1.snapshot.tmp-123"])

    def test_folders_that_cannot_be(self):
        (self.folder / "file").touch()
        for words, code, sentence in ((["serve", "--job-dir", ""], 2, "--job-dir needs a folder's name"),
                                      (["serve", "--job-dir", "file/below"], 3, "cannot make the folder file/below: "),
                                      (["serve", "--job-dir", "file"], 3, "cannot make the folder file: "),
                                      (["serve", "--listen", "0.0.0.0:0", "--job-dir", "file/below"], 3, "file/below"),
                                      (["credentials", "file/below/a.pem"], 3, "file/below/a.pem"),
                                      (["status", "file/below"], 2, "cohort status takes HOST:PORT"),
                                      (["status", self.folder], 2, "no center is running in")):
            with self.subTest(words):
                done = self.run_program(*words, code=code)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Replays(Center):
    def test_through_a_center_has_the_bits_of_plain_training(self):
        run = [*SMALL, "--train-steps", "40", "--checkpoint-every", "20", "--receipt-every", "5", "--workers", "2"]
        for more in (["--servers", "2"], ["--sync", "backup", "--backups", "0"]):
            with self.subTest(more):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*run, *more)
                done = self.run_program("verify", self.job, "--replay", "20:40", "--workers", "2")
                self.assertEqual(done.stdout, "equal: 4 receipts, of steps 25 to 40\n")

    def test_what_has_other_bits_each_time_is_refused(self):
        for rule in (["async"], ["ssp"], ["backup", "--backups", "1"]):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*SMALL, "--train-steps", "10", "--workers", "2", "--sync", *rule)
                done = self.run_program("verify", self.job, "--replay", "0:10", code=2)
                self.assertRegex(done.stderr, rf"\Acohort: {self.job} cannot be replayed exactly: with --sync {rule[0]}.*\n\Z")


# ---- strangers

def frame(kind, flags, stream, payload):
    """Of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(path="/cohort.Center/Connect"):
    """The opening of a call, as gRPC does it."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "cohort.run", "te": "trailers",
              "content-type": "application/grpc"}
    return (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
            + frame(1, 4, 1, b"".join(header(*field) for field in fields.items())))


def message(body, announced=None):
    """Of gRPC, in frames of 16 KiB."""
    whole = struct.pack(">BI", 0, len(body) if announced is None else announced) + body
    return b"".join(frame(0, 0, 1, whole[at:at + 16384]) for at in range(0, len(whole), 16384))


class Recovery(ByHand):
    @staticmethod
    def blocks(process, number):
        """It awaits a signal on a thread of its own from then on."""
        mask = re.search(r"SigBlk:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1]
        return int(mask, 16) >> (number - 1) & 1

    def test_the_newest_checkpoint_counts_whoever_comes_first(self):
        """Each worker has a folder of its own; the first to come back to a new server is the one without checkpoints."""
        server, address = self.serve()
        chief = self.join(address, *LONG, "--recovery-wait", "60s")
        self.reach(chief, lambda: self.newest() >= 300)
        other = self.join(address, *LONG, "--recovery-wait", "60s", job=self.folder / "other")
        reached = self.newest()
        self.reach(chief, lambda: self.newest() >= reached + 100 and (self.folder / "other" / "logs").exists())
        chief.send_signal(signal.SIGSTOP)
        server.kill()
        server.communicate(timeout=LIMIT)
        again, _ = self.serve(listen=address)
        other_reached = lambda: self.newest(self.folder / "other")  # it begins anew, for want of something better
        self.reach(other, lambda: other_reached() >= 50)
        self.assertLess(other_reached(), reached)
        chief.send_signal(signal.SIGCONT)
        self.finish(chief)
        self.finish(other)
        self.finish(again)
        summaries = [job for job in (self.job, self.folder / "other") if (job / "summary.json").exists()]
        self.assertEqual([self.summary(job)["weights_hash"] for job in summaries], [self.calm()] * len(summaries))
        self.assertTrue(summaries)

    def test_what_a_server_lost_is_counted_and_said(self):
        process = self.start(*OWN_PACE, "--sync", "async", "--workers", "2", "--servers", "2", "--snapshot-every", "1s",
                             "--train-steps", "20000")
        snapshots = [self.job / "snapshots" / f"server-{k}.snapshot" for k in (0, 1)]
        for victim in (0, 1):
            self.reach(process, snapshots[victim].exists)
            written = snapshots[victim].stat().st_mtime_ns
            self.reach(process, lambda: snapshots[victim].stat().st_mtime_ns != written)
            reached = self.newest()
            self.reach(process, lambda: self.newest() > reached)
            os.kill(self.servers()[victim], signal.SIGKILL)
            reached = self.newest()
            self.reach(process, lambda: self.newest() > reached)
        _, errors = self.finish(process)
        said = re.findall(r"(\S+) came back from its snapshot: (\d+) updates of its parameters are lost", errors)
        self.assertTrue(said, errors)
        lost = [server["lost"] for server in self.summary()["center"]["servers"]]
        self.assertGreater(sum(lost), 0)
        self.assertLessEqual(max(int(count) for _, count in said), max(lost))
        self.assertEqual(self.summary()["step"], 20000)

    def test_servers_that_come_back_from_different_openings(self):
        servers = [self.serve("--snapshot-every", "1s", index=index, servers=2) for index in (0, 1)]
        worker = self.join([address for _, address in servers], *OWN_PACE, "--sync", "async", "--train-steps", "8000")
        snapshots = [self.folder / f"server-{index}" / f"server-{index}.snapshot" for index in (0, 1)]
        self.reach(worker, lambda: all(snapshot.exists() for snapshot in snapshots))
        old = snapshots[0].read_bytes()

        def replace(index, state):
            process, address = servers[index]
            process.kill()
            process.communicate(timeout=LIMIT)
            snapshots[index].unlink(missing_ok=True)
            if state:
                snapshots[index].write_bytes(state)
            servers[index] = self.serve("--snapshot-every", "1s", index=index, servers=2, listen=address)
            reached = self.newest()
            self.reach(worker, lambda: self.newest() > reached)
        replace(1, None)  # the run is opened again
        replace(0, old)   # with what was before that
        output, _ = self.finish(worker)
        self.assertIn("test accuracy", output)
        for process, _ in servers:
            self.finish(process)
        self.assertEqual(self.summary()["step"], 8000)

    def test_until_the_time_is_over(self):
        for rule in ("bsp", "async"):
            with self.subTest(rule=rule):
                job = self.folder / rule
                self.train(*SMALL, "--max-time", "1s", "--workers", "2", "--servers", "1", "--sync", rule, job=job)
                summary = self.summary(job)
                self.assertGreater(summary["step"], 0)
                self.assertEqual((summary["interrupted"], self.newest(job)), (False, summary["step"]))

    def test_one_who_waits_leaves_when_it_is_asked(self):
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        self.addCleanup(taken.close)
        worker = self.join(f"127.0.0.1:{taken.getsockname()[1]}", *LONG, "--recovery-wait", "600s")
        self.wait_for(lambda: self.blocks(worker, signal.SIGTERM))
        worker.send_signal(signal.SIGTERM)
        self.finish(worker, code=75, limit=30)

    def test_one_without_work_leaves_when_it_is_asked(self):
        server, address = self.serve()
        run = [*LONG, "--grains", "1"]
        first = self.join(address, *run)
        self.reach(first, lambda: self.newest() >= 50)
        idle = self.join(address, *run)
        self.wait_for(lambda: " 2 members," in self.run_program("status", address).stdout)
        idle.send_signal(signal.SIGTERM)
        output, _ = self.finish(idle, code=75, limit=30)
        self.assertIn("goes on", output)
        self.finish(first)
        self.finish(server)


class Strangers(ByHand):
    def credentials(self, name):
        """A file that a server makes which others could reach."""
        server, _ = self.serve(job=self.folder / name, listen="0.0.0.0:0")
        server.send_signal(signal.SIGTERM)
        self.finish(server, code=75)
        file = self.folder / name / "credentials.pem"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        return file

    def connect(self, address, credentials=None):
        host, port = address.split(":")
        connection = socket.create_connection((host, int(port)), timeout=10)
        self.addCleanup(connection.close)
        if credentials is None:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(credentials)
        own = self.folder / "own.pem"
        blocks = re.findall(r"-----BEGIN [^-]+-----.*?-----END [^-]+-----\n", credentials.read_text(), re.S)
        own.write_text("".join(blocks[1:]))  # without the authority's, which comes first
        context.load_cert_chain(own)
        context.set_alpn_protocols(["h2"])
        connection = context.wrap_socket(connection, server_hostname="cohort.run")
        self.addCleanup(connection.close)
        return connection

    def require_dropped(self, connection, *parts):
        """After these bytes the other side ends what we have begun, in a few seconds."""
        answer = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for part in parts:
                connection.sendall(part)
            give_up = time.monotonic() + 10
            # The end of the connection, or of the stream: trailers, or a reset.
            while b"grpc-status" not in answer and frame(3, 0, 1, b"\0\0\0\0")[:9] not in answer:
                self.assertLess(time.monotonic(), give_up, answer)
                received = connection.recv(65536)
                if not received:
                    break
                answer += received
        return answer

    def run_among(self, address, strangers, *more):
        """A run that two workers do, while strangers come: it does not begin before the second worker does."""
        run = [*LONG, "--sync", "backup", "--backups", "0", "--workers", "2", *more]
        first = self.join(address, *run)
        self.reach(first, lambda: ", 1 member," in self.run_program("status", address, *more).stdout)
        strangers()
        second = self.join(address, *run)
        self.finish(first)
        self.finish(second)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_only_the_runs_own_workers_come_in(self):
        own, other = self.credentials("own"), self.credentials("other")
        self.assertNotEqual(own.read_bytes(), other.read_bytes())
        server, address = self.serve("--credentials", own, job=self.folder / "own")

        def strangers():
            for what, more in {"nothing": [], "another's": ["--credentials", other], "plain text": ["--insecure"]}.items():
                with self.subTest(what):
                    start = time.monotonic()
                    sentence = self.refused(address, *LONG, "--recovery-wait", "1s", *more, code=4)
                    self.assertIn(f"server 0 at {address}", sentence)
                    self.assertLess(time.monotonic() - start, 15)
            for what, words in {"garbage": os.urandom(5000), "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                "a call in plain text": call() + message(b"\0" * 4)}.items():
                with self.subTest(what):
                    self.require_dropped(self.connect(address), words)
            # Who has the file is listened to, but not believed.
            for what, words in self.nonsense().items():
                with self.subTest(what):
                    self.require_dropped(self.connect(address, own), *words)
            silent.append(self.connect(address, own))
            silent[0].sendall(call())  # and no word more
        silent = []
        self.run_among(address, strangers, "--credentials", own)
        silent[0].close()
        self.finish(server)

    @staticmethod
    def nonsense():
        hello = b"\x0a\x04\x08\x01\x18\x01"
        return {"an oversized message": [call(), message(b"x" * 100000, announced=17 << 20)],
                "an endless message": [call(), message(b"x" * 100000, announced=0xffffffff)],
                "no envelope": [call(), message(b"")],
                "an endless envelope": [call(), message(b"\xff\xff\xff\xff" + b"x" * 1000)],
                "a broken envelope": [call(), message(b"\x10\0\0\0" + b"\xff" * 16)],
                "no greeting": [call(), message(b"\0\0\0\0")],
                "two greetings": [call(), message(struct.pack("<I", len(hello)) + hello) * 2],
                "another method": [call("/cohort.Center/Other"), message(b"")]}

    def test_nonsense_in_plain_text(self):
        server, address = self.serve()

        def strangers():
            for what, words in {"garbage": [os.urandom(5000)], "a request": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
                                **self.nonsense()}.items():
                with self.subTest(what):
                    answer = self.require_dropped(self.connect(address), *words)
                    self.assertIn(sentences.get(what, b""), answer)
        sentences = {"no greeting": b"the first word is a greeting", "two greetings": b"it has greeted before",
                     "another method": b"there is no such method"}
        self.run_among(address, strangers)
        self.finish(server)

    def test_an_address_that_others_reach_needs_credentials(self):
        self.assertIn("--credentials", self.refused("198.51.100.1:7000", *SMALL))
        done = self.run_program("serve", "--listen", "0.0.0.0:0", "--servers", "2", "--server-index", "1",
                                "--job-dir", self.folder / "second", code=2)
        self.assertIn("--credentials FILE", done.stderr)
        server, address = self.serve(job=self.folder / "own", listen="0.0.0.0:0")
        address = address.replace("0.0.0.0", "127.0.0.1")
        worker = self.join(address, *SMALL, "--train-steps", "20", "--credentials", self.folder / "own" / "credentials.pem")
        self.finish(worker)
        self.finish(server)

    def test_a_file_that_others_may_read_is_refused(self):
        file = self.credentials("own")
        file.chmod(0o644)
        self.assertIn("credentials.pem", self.refused("127.0.0.1:7000", *SMALL, "--credentials", file))


class Notes(Center):
    def test_settings_of_other_rules_are_named(self):
        run = [*SMALL, "--train-steps", "2", "--sync", "async", "--workers", "2", "--backups", "3", "--staleness", "9",
               "--avg-freq", "7", "--scale-stale", "--recovery-wait", "20s"]
        output = self.train(*run).stdout
        for setting, rule in (("backups", "backup"), ("staleness", "ssp"), ("avg-freq", "local")):
            self.assertIn(f"note: {setting} has no effect here: it is for --sync {rule}\n", output)
        self.assertEqual(output.count("has no effect"), 3, output)
        self.assertFalse((self.job / "receipt.jsonl").exists())  # it could prove nothing


class Refusals(ByHand):
    def test_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        start = time.monotonic()
        self.assertRegex(self.refused(address, *SMALL, "--recovery-wait", "2s", code=4),
                         rf"server 0 at {address} did not come back within 2 s \(--recovery-wait\): ")
        self.assertLess(time.monotonic() - start, 15)

    def test_servers_that_are_named_wrong(self):
        servers = [self.serve(index=index, servers=2) for index in (0, 1)]
        a, b = (address for _, address in servers)
        self.assertIn("this is server 1 of 2, not server 0 of 2; name all servers in their order",
                      self.refused(f"{b},{a}", *SMALL))
        self.assertIn("this is server 0 of 2, not server 0 of 1; name all servers in their order", self.refused(a, *SMALL))
        # They are still there for those who know better.
        self.finish(self.join((a, b), *SMALL, "--train-steps", "10"))
        for server, _ in servers:
            self.finish(server)

    def test_a_worker_of_another_configuration(self):
        server, address = self.serve()
        good = self.join(address, *LONG)
        self.reach(good, lambda: self.newest() >= 50)
        self.assertIn("this worker has 'lr: 0.5' where the run has 'lr: ", self.refused(address, *LONG, "--lr", "0.5"))
        self.assertIn("this worker has 'sync: async' where the run has 'sync: bsp'",
                      self.refused(address, *LONG, "--sync", "async"))
        self.finish(good)
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_wrong_usage(self):
        joined = ["train", *SMALL, "--join", "127.0.0.1:1"]
        for words, sentence in (
                ([*joined, "--sync", "local"], "--sync local has no center"),
                ([*joined, "--wire", "fp16"], "--wire fp16 is for workers without a center"),
                ([*joined, "--servers", "2"], "--servers 2, but --join names 1 server; name all of them"),
                (["train", "--join", "127.0.0.1:1", "--batch-per-worker", "20"], "--batch-per-worker says nothing with --join"),
                (["train", *SMALL, "--join", "127.example.com:1"], "127.example.com:1 is on another machine"),
                (["train", *SMALL, "--credentials", "run.pem"], "--credentials is for a worker that joins"),
                (["train", *SMALL, "--servers", "1", "--insecure"], "--insecure is for a worker that joins"),
                (["status", "198.51.100.1:7000"], "198.51.100.1:7000 is on another machine: give --credentials FILE"),
                (["train", *SMALL, "--join", "127.0.0.1"], "--join takes HOST:PORT"),
                (["train", *SMALL, "--join", ""], "--join"),
                (["train", *SMALL, "--workers", "2", "--servers", "1", "--sync", "diloco"], "--sync diloco has no center"),
                (["train", *SMALL, "--workers", "2", "--sync", "backup", "--backups", "2"],
                 "--backups 2 of 2 workers leaves nobody to wait for; --backups 0 to 1 would do"),
                (["train", *SMALL, "--workers", "9", "--servers", "1"], "--workers 1 to 8 would do"),
                (["train", *SMALL, "--workers", "2", "--servers", "1", "--wire", "fp16"], "--wire fp16"),
                (["serve", "--servers", "2", "--server-index", "2"], "--server-index 2 of 2 servers"),
                (["serve", "--servers", "2", "--server-index", "-1"], "--server-index"),
                (["serve", "--servers", "0"], "--servers"),
                (["serve", "--listen", "nowhere"], "--listen takes HOST:PORT"),
                (["serve", "--listen", "127.0.0.1:70000"], "--listen takes HOST:PORT")):
            with self.subTest(words):
                done = self.run_program(*words, code=2)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["tmp"])

    def test_workers_of_mpirun_have_no_center(self):
        for rule in (["--sync", "async"], ["--sync", "backup"], ["--servers", "2"]):
            with self.subTest(rule):
                done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", PROGRAM, "train", *SMALL,
                                       "--train-steps", "5", "--job-dir", self.job, *rule], cwd=self.folder, text=True,
                                      capture_output=True, timeout=LIMIT, check=False, env=os.environ)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(f"cohort: worker 0: {' '.join(rule)} is training with a center, which workers that mpirun starts "
                              "do not have; ", done.stderr)
                self.assertFalse(self.job.exists())

    def test_what_older_names_say_is_shown(self):
        done = self.train(*SMALL, "--train-steps", "5", "--servers", "1", "--eval-batch-size", "100")
        self.assertEqual(done.stdout.count("note: --eval-batch-size has no effect: "), 1, done.stdout)

    def test_an_address_that_is_taken(self):
        _, address = self.serve()
        done = self.run_program("serve", "--listen", address, "--job-dir", self.folder / "other", code=3)
        self.assertIn(f"cannot listen at {address}", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
