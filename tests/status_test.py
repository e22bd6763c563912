#!/usr/bin/env python3
"""status_test.py PROGRAM [unittest options]: where a run stands, as `cohort status` tells it, and stalls that are told by themselves."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from program import LIMIT, PROGRAM, is_alive
from training_run import SMALL as SMALL_WITH_THREADS, TrainingTest
from workers_test import MPIRUN, write_pictures

SMALL = SMALL_WITH_THREADS[:SMALL_WITH_THREADS.index("--threads")]
# Whoever stands still does so in a step.
WITHOUT_CHECKPOINTS = [*SMALL, "--train-steps", "100000000", "--checkpoint-every", "0"]
ENDLESS = [*SMALL, "--train-steps", "100000000", "--checkpoint-every", "20", "--stall-timeout", "4"]
HOST = socket.gethostname()
PLACE = (r"(preparing|reading samples|computing|exchanging|in (forward|backward)( \S+)?|updating( \S+)?|evaluating|"
         r"writing a checkpoint)")


class Status(TrainingTest):
    def start(self, *arguments, launcher=(), environment=None):
        process = subprocess.Popen([*launcher, PROGRAM, "train", "--job-dir", self.job, *map(str, arguments)],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.addCleanup(self.end_all, process)
        return process

    def end_all(self, process):
        """With what it started; frozen ones too."""
        found = self.statuses()
        self.end(process)
        for status in found.values():
            if is_alive(status["process"]):
                os.kill(status["process"], signal.SIGKILL)

    def statuses(self):
        found = {}
        for path in (self.job / "status").glob("*.json"):
            try:
                found[path.stem] = json.loads(path.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                continue
        return found

    def reach(self, process, workers, step=1):
        """So many workers are in their steps."""
        def is_reached():
            self.assertIsNone(process.poll(), "it ended")
            found = [status for name, status in self.statuses().items() if name.startswith("worker")]
            return len(found) == workers and all(status["step"] >= step for status in found)
        self.wait_for(is_reached)

    def freeze_for_a_while(self, process, numbers):
        """Longer than anybody's patience; all of them then go on."""
        for number in numbers:
            os.kill(number, signal.SIGSTOP)
        time.sleep(7)
        for number in numbers:
            os.kill(number, signal.SIGCONT)
        step = min(status["step"] for status in self.statuses().values())
        self.reach(process, 2, step=step + 20)

    def status(self):
        return self.run_program("status", self.job).stdout.splitlines()

    def finish(self, process, code):
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, output + errors)
        return output, errors


class WhereItStands(Status):
    def look(self, process, workers):
        self.reach(process, workers)
        lines = self.status()
        self.assertEqual(len(lines), workers + 2, lines)
        self.assertEqual(lines[0].split(), ["host", "process", "step", "for", "doing"])
        for number, line in enumerate(lines[1:-1]):
            self.assertRegex(line, rf"^worker {number} +{re.escape(HOST)} +\d+ +\d+ +\d+\.\d s  {PLACE}")
            self.assertTrue(is_alive(int(line.split()[3])))
        return lines

    def test_alone(self):
        lines = self.look(self.start(*ENDLESS), 1)
        self.assertRegex(lines[-1], r"^the worker goes on, after step \d+$")

    def test_supervised(self):
        lines = self.look(self.start(*ENDLESS, "--workers", "3"), 3)
        self.assertRegex(lines[-1], r"^all 3 workers go on, after step \d+$")

    def test_under_a_foreign_mpirun(self):
        lines = self.look(self.start(*ENDLESS, launcher=[*MPIRUN, "-np", "2"]), 2)
        self.assertRegex(lines[-1], r"^all 2 workers go on, after step \d+$")

    def test_a_divided_network(self):
        lines = self.look(self.start(*ENDLESS, "--parallel", "model", "--workers", "2"), 2)
        self.assertRegex(lines[-1], r"^all 2 workers go on, after step \d+$")

    def test_layers_are_named(self):
        """Of a network whose layers take long enough to be met in them."""
        process = self.start(*"--network alexnet --dataset synthetic --samples 64 --test-samples 8 --batch-size 32 --grains 4 "
                             "--image-size 131 --channels 3 --train-steps 100000 --threads 1".split())
        self.reach(process, 1)
        met = set()
        def is_met():
            self.assertIsNone(process.poll(), "it ended")
            met.update(re.findall(r"  in (forward|backward) (\S+)", "\n".join(self.status())))
            return {"forward", "backward"} <= {way for way, _ in met} and len(met) >= 4
        self.wait_for(is_met)
        names = {layer["name"] for layer in json.loads((self.job / "layers.json").read_text())}
        self.assertLessEqual({name for _, name in met}, names)

    def test_a_frozen_worker(self):
        """Nobody would say so by himself yet."""
        process = self.start(*WITHOUT_CHECKPOINTS, "--stall-timeout", "100", "--workers", "3")
        self.reach(process, 3)
        os.kill(self.statuses()["worker-1"]["process"], signal.SIGSTOP)
        time.sleep(6)
        lines = self.status()
        self.assertRegex(lines[2], r"^worker 1 .*\(no sign of life for \d+(\.\d)? s\)$")
        for waiting in (lines[1], lines[3]):
            self.assertRegex(waiting, r"exchanging, waiting for (worker \d: .* in bucket 1 of 1|"
                                      r"another worker to take what it is sent of step \d+)$")
            self.assertGreater(float(re.search(r"([\d.]+) s  exchanging", waiting).group(1)), 4)
        self.assertRegex(lines[-1], rf"^worker 1 on {re.escape(HOST)} gave no sign of life for \d+ s: it was {PLACE} after step \d+; "
                                    r"worker 0, worker 2 wait for it$")

    def test_slow_data(self):
        """A picture that becomes a pipe which nobody writes to."""
        write_pictures(self.folder / "pictures", classes=2, each=20)
        process = self.start("--network", "mnist-cnn", "--dataset", "folder", "--data-dir", self.folder / "pictures",
                             "--image-size", "12", "--test-split", "4", "--batch-size", "8", "--grains", "8", "--train-steps",
                             "1000000", "--data-threads", "0", "--threads", "1")
        self.reach(process, 1)
        os.mkfifo(self.folder / "pipe")
        os.replace(self.folder / "pipe", self.folder / "pictures" / "1" / "7.png")
        self.wait_for(lambda: self.statuses()["worker-0"]["still_s"] > 7)
        lines = self.status()
        self.assertRegex(lines[1], r" +[\d.]+ s  reading samples$")
        self.assertRegex(lines[-1], rf"^worker 0 on {re.escape(HOST)} did not move for \d+ s: it was reading samples after step \d+$")

    def test_a_center(self):
        process = self.start(*ENDLESS, "--workers", "2", "--servers", "2")
        self.reach(process, 2)
        self.wait_for(lambda: [status["doing"] for name, status in self.statuses().items() if name.startswith("server")]
                      == 2 * ["serving"])
        lines = self.status()
        self.assertRegex(lines[1], rf"^worker 0 +{re.escape(HOST)} +\d+ +\d+ +\d+\.\d s  ({PLACE}|waiting for server [01])$")
        self.assertRegex(lines[3], rf"^server 0 +{re.escape(HOST)} +\d+ +\d+ +[\d.]+ s  serving$")
        self.assertRegex(lines[4], rf"^server 1 +{re.escape(HOST)} +\d+ +\d+ +[\d.]+ s  serving$")
        self.assertRegex(lines[5], r"^all 2 workers go on, after step \d+$")
        self.assertRegex(lines[6], r"^bsp: step \d+ of 100000000, 2 members, 0 gradients dropped$")

    def test_a_center_by_hand(self):
        server = self.start_program("serve", "--listen", "127.0.0.1:0", "--job-dir", self.folder / "center",
                                    stdout=subprocess.PIPE, text=True)
        address = re.search(r"listens at (\S+)", server.stdout.readline()).group(1)
        run = [*SMALL, "--train-steps", "100000000", "--join", address]
        first = self.start(*run)
        self.reach(first, 1)
        self.assertRegex(self.status()[1], rf"^worker {re.escape(HOST)}-{first.pid} +{re.escape(HOST)} +{first.pid} +\d+ ")
        self.assertRegex(self.run_program("status", self.folder / "center").stdout,
                         rf"(?m)^server 0 +{re.escape(HOST)} +{server.pid} +\d+ .* serving\n(.*\n)*bsp: step \d+ of 100000000, 1 member")
        first.kill()
        first.wait()
        self.assertRegex(self.status()[1], "gone; it was ")
        second = self.start(*run)
        self.wait_for(lambda: list(self.statuses()) == [f"worker-{HOST}-{second.pid}"])

    def test_a_frozen_server(self):
        process = self.start(*ENDLESS, "--stall-timeout", "100", "--workers", "2", "--servers", "2")
        self.reach(process, 2)
        self.wait_for(lambda: "server-1" in self.statuses())
        os.kill(self.statuses()["server-1"]["process"], signal.SIGSTOP)
        time.sleep(5)
        done = self.run_program("status", self.job, code=4)
        self.assertRegex(done.stdout, r"(?m)^server 1 .* \(no sign of life for \d+(\.\d)? s\)$")
        self.assertRegex(done.stdout, r"(?m)^worker [01] .* waiting for server 1$")


class AfterItsEnd(Status):
    def test_a_run_that_is_over(self):
        self.train(*SMALL, "--train-steps", "6", "--workers", "2")
        self.assertFalse((self.job / "status").exists())
        self.assertEqual(self.status(), [f"the run is over: 6 steps; {self.job}/summary.json tells more"])

    def test_a_run_that_was_stopped(self):
        process = self.start(*ENDLESS)
        self.reach(process, 1)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 75)
        step = self.summary()["step"]
        self.assertEqual(self.status(), [f"the run was stopped after step {step}: the last checkpoint is of step {step}; "
                                         f"go on with the same command and --job-dir {self.job}"])

    def test_a_run_that_was_killed(self):
        process = self.start(*ENDLESS)
        self.reach(process, 1, step=30)
        process.kill()
        process.wait()
        self.wait_for(lambda: "gone" in self.status()[1])
        lines = self.status()
        self.assertRegex(lines[1], rf"gone; it was {PLACE}$")
        self.assertRegex(lines[2], rf"^worker 0 on \S+ is gone \(process {process.pid} has ended\): it was {PLACE} after step \d+; "
                                   r"nobody works on this run: the last checkpoint is of step \d+; go on with the same command")
        last = int(self.checkpoints()[-1].stem.split("-")[1])
        self.train(*ENDLESS, "--train-steps", last + 5)  # which takes the old status away
        self.assertRegex(self.status()[0], f"^the run is over: {last + 5} steps; ")

    def test_a_run_that_failed(self):
        self.train(*SMALL, "--train-steps", "100", "--optimizer", "sgd", "--lr", "1e5", code=2)
        lines = self.status()
        self.assertRegex(lines[1], "failed: the loss is no longer a number")
        self.assertRegex(lines[2], r"^worker 0 on \S+ failed after step \d+: the loss is no longer a number .*; nobody works on this run: ")

    def test_no_run(self):
        done = self.run_program("status", self.folder, code=2)
        self.assertRegex(done.stderr, "no center is running in .*, and there was no run; give a run's folder, or HOST:PORT")


class ByThemselves(Status):
    """Where nobody supervises, workers find out who holds them up."""

    def test_a_frozen_worker(self):
        for frozen in (1, 0):
            with self.subTest(frozen=frozen):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*ENDLESS, launcher=[*MPIRUN, "-np", "3"])
                self.reach(process, 3)
                os.kill(self.statuses()[f"worker-{frozen}"]["process"], signal.SIGSTOP)
                _, errors = self.finish(process, 4)
                self.assertRegex(errors, rf"cohort: worker \d: worker {frozen} on {re.escape(HOST)} gave no sign of life for \d s: "
                                         rf"it was {PLACE} after step \d+; worker \d, worker \d wait for it")

    def test_hosts_are_named(self):
        """Of processes that have a host name each."""
        hosts = ["unshare", "-u" if os.geteuid() == 0 else "-ru", "sh", "-c", 'hostname "n$OMPI_COMM_WORLD_RANK" && exec "$@"', "sh"]
        process = self.start(*ENDLESS, launcher=[*MPIRUN, "-np", "2", *hosts])
        self.reach(process, 2)
        self.assertRegex("\n".join(self.status()), r"(?m)^worker 0 +n0 (.*\n)worker 1 +n1 .*\nall 2 workers go on")
        os.kill(self.statuses()["worker-1"]["process"], signal.SIGSTOP)
        _, errors = self.finish(process, 4)
        self.assertRegex(errors, r"cohort: worker 0: worker 1 on n1 gave no sign of life for \d s: it was .*; worker 0 on n0 waits for it")

    def test_a_message_that_is_lost(self):
        process = self.start(*ENDLESS, launcher=[*MPIRUN, "-np", "3"],
                             environment={"COHORT_LOSE_AT": "send:200", "COHORT_CRASH_WORKER": "1"})
        _, errors = self.finish(process, 4)
        self.assertRegex(errors, r"cohort: worker \d: all workers wait for others and nothing has moved for \d s: "
                                 r"worker 0 on \S+ waits for worker ")

    def test_the_whole_run_may_be_frozen(self):
        """As by a queue that gives the cores to another job for a while."""
        process = self.start(*ENDLESS, launcher=[*MPIRUN, "-np", "2"])
        self.reach(process, 2)
        numbers = [status["process"] for status in self.statuses().values()]
        self.freeze_for_a_while(process, numbers)


class BySupervisor(Status):
    def test_the_whole_run_may_be_frozen(self):
        process = self.start(*ENDLESS, "--workers", "2")
        self.reach(process, 2)
        numbers = [process.pid, *(status["process"] for status in self.statuses().values())]
        self.freeze_for_a_while(process, numbers)
        process.send_signal(signal.SIGTERM)
        _, errors = self.finish(process, 75)
        self.assertEqual(errors, "")

    def test_a_message_that_is_lost(self):
        """Everybody waits for another, and everybody says so a few times a second."""
        process = self.start(*ENDLESS, "--workers", "3", "--max-restarts", "0",
                             environment={"COHORT_LOSE_AT": "send:200", "COHORT_CRASH_WORKER": "1"})
        _, errors = self.finish(process, 4)
        self.assertRegex(errors, r"all workers wait for others and nothing has moved for 4 s: worker 0 waits for worker \d: .*; "
                                 r"given up after 0 restarts")


if __name__ == "__main__":
    unittest.main()
