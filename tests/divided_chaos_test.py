#!/usr/bin/env python3
"""divided_chaos_test.py PROGRAM [unittest options]: workers that share a network die and stand still; the run ends as if they had not."""

import os
import random
import re
import shutil
import signal
import subprocess
import unittest

from program import LIMIT, PROGRAM
from workers_test import MPIRUN, SMALL, Disturbed

KILLS = 8
FREEZES = 2
# Of three workers, each has some of the dense layers' weights alone; eight grains fill their last round with padding.
RUN = [*SMALL, "--train-steps", "500", "--checkpoint-every", "10", "--stall-timeout", "4", "--parallel", "hybrid"]
SHORT = [*SMALL, "--train-steps", "40", "--checkpoint-every", "5", "--parallel", "hybrid", "--workers", "2"]


class DividedChaos(Disturbed):
    def hash_of(self, *run):
        """Of a run that nobody disturbs."""
        job = self.folder / "calm"
        shutil.rmtree(job, ignore_errors=True)
        self.train(*run, job=job)
        return self.summary(job)["weights_hash"]

    def disturb(self, process, events, chance):
        """Each at a random moment after all workers of a new start are there and have done something new."""
        before, last = {}, 0
        for event in events:
            wanted = last + chance.randrange(1, 30)
            def ready():
                now = self.processes()
                self.assertIsNone(process.poll(), "it ended before it was disturbed enough")
                return len(now) == 3 and not set(now.values()) & set(before.values()) and self.newest() >= wanted
            self.wait_for(ready)
            before, last = self.processes(), self.newest()
            os.kill(before[chance.randrange(3)], event)

    def test_kills_and_freezes(self):
        chance = random.Random(1)
        events = [signal.SIGKILL] * KILLS + [signal.SIGSTOP] * FREEZES
        chance.shuffle(events)
        process = self.start(*RUN, "--workers", "3", "--max-restarts", len(events))
        self.disturb(process, events, chance)
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertEqual(len(re.findall(r"starting 3 workers again", errors)), len(events), errors)
        self.assertEqual(len(re.findall(r"gave no sign of life", errors)), FREEZES, errors)
        self.assertEqual(self.summary()["weights_hash"], self.hash_of(*RUN, "--workers", "3"))

    def test_the_programs_own_chaos(self):
        run = [*RUN, "--mesh", "data=2,model=2"]
        done = self.train(*run, "--chaos", "5")
        self.assertGreaterEqual(len(re.findall(r"^chaos: (?:killing|freezing) worker \d$", done.stdout, re.M)), 1)
        self.assertIn("again from the checkpoint of step", done.stderr)
        self.assertEqual(self.summary()["weights_hash"], self.hash_of(*run))

    def test_stops_by_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            process = self.start(*RUN, "--workers", "3")
            before = self.newest()
            self.wait_for(lambda: self.newest() >= before + 30)
            process.send_signal(number)
            output, _ = self.finish(process, code=75)
            self.assertIn("stopped by a signal", output)
        self.train(*RUN, "--workers", "3")
        self.assertEqual(self.summary()["weights_hash"], self.hash_of(*RUN, "--workers", "3"))

    def test_a_stop_under_a_foreign_mpirun(self):
        process = subprocess.Popen([*MPIRUN, "-np", "3", PROGRAM, "train", "--job-dir", self.job, *RUN], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.wait_for(lambda: self.newest() >= 30)
        process.send_signal(signal.SIGUSR1)
        self.finish(process, code=75)
        self.train(*RUN, "--workers", "3")
        self.assertEqual(self.summary()["weights_hash"], self.hash_of(*RUN, "--workers", "3"))

    def test_elastic_goes_on_with_fewer(self):
        """Of a worker that dies in every start, when it has written its part of the second checkpoint."""
        run = [word if word != "2" else "3" for word in SHORT]
        done = self.train(*run, "--elastic", env={**os.environ, "COHORT_CRASH_AT": "checkpoint-part:7", "COHORT_CRASH_WORKER": "2"})
        self.assertRegex(done.stderr, r"worker 2 was ended by signal 9 .*; starting 2 workers again")
        self.assertEqual(len(self.summary()["workers"]), 2)
        self.assertEqual(self.summary()["step"], 40)
        self.train(*SHORT, job=self.folder / "calm")
        self.assertAlmostEqual(self.summary()["test_loss"], self.summary(self.folder / "calm")["test_loss"], delta=1e-2)

    def test_dying_anywhere_in_a_checkpoint(self):
        calm = self.hash_of(*SHORT)
        for place in ("checkpoint-part:7", "checkpoint-parts:3", "checkpoint-header:3", "synced.safetensors:3",
                      "renamed.safetensors:3"):
            for worker in ("0", "1") if place.startswith("checkpoint-part") else ("0",):
                with self.subTest(place, worker=worker):
                    shutil.rmtree(self.job, ignore_errors=True)
                    done = self.train(*SHORT, "--max-restarts", "0", code=4,
                                      env={**os.environ, "COHORT_CRASH_AT": place, "COHORT_CRASH_WORKER": worker})
                    self.assertRegex(done.stderr, rf"worker {worker} was ended by signal 9")
                    self.assertLess(self.newest(), 40)
                    self.train(*SHORT)
                    self.assertEqual(self.summary()["weights_hash"], calm)
                    self.assertEqual([p for p in (self.job / "checkpoints").iterdir() if ".tmp-" in p.name], [])



if __name__ == "__main__":
    unittest.main()
