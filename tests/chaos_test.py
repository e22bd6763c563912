#!/usr/bin/env python3
"""chaos_test.py PROGRAM [unittest options]: many kills and freezes in one run, which ends as if there had been none."""

import os
import random
import re
import signal
import unittest

from program import LIMIT
from workers_test import SMALL, Disturbed

KILLS = 20
FREEZES = 5
STEPS = 4000
OWN_STEPS = 1000  # each life makes some dozens, on a busy machine fewer
RUN = [*SMALL, "--checkpoint-every", "10", "--stall-timeout", "2"]


class Chaos(Disturbed):
    def expected(self, steps):
        self.train(*RUN, "--train-steps", steps, job=self.folder / "calm")
        return self.summary(self.folder / "calm")["weights_hash"]

    def test_twenty_kills_and_five_freezes(self):
        chance = random.Random(1)
        events = [signal.SIGKILL] * KILLS + [signal.SIGSTOP] * FREEZES
        chance.shuffle(events)
        process = self.start(*RUN, "--train-steps", STEPS, "--workers", "3", "--max-restarts", len(events))
        before, last = {}, 0
        for event in events:
            # All workers of a new start are there, and have done something new.
            def ready():
                now = self.processes()
                self.assertIsNone(process.poll(), "it ended before it was disturbed enough")
                return len(now) == 3 and not set(now.values()) & set(before.values()) and self.newest() > last
            self.wait_for(ready)
            before, last = self.processes(), self.newest()
            os.kill(before[chance.randrange(3)], event)
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertEqual(len(re.findall(r"starting 3 workers again", errors)), len(events), errors)
        self.assertEqual(len(re.findall(r"gave no sign of life", errors)), FREEZES, errors)
        self.assertEqual(self.summary()["weights_hash"], self.expected(STEPS))

    def test_the_programs_own_chaos(self):
        done = self.train(*RUN, "--train-steps", OWN_STEPS, "--workers", "2", "--chaos", "5")
        self.assertGreaterEqual(len(re.findall(r"^chaos: (?:killing|freezing) worker \d$", done.stdout, re.M)), 1)
        self.assertIn("again from the checkpoint of step", done.stderr)
        self.assertEqual(self.summary()["weights_hash"], self.expected(OWN_STEPS))


if __name__ == "__main__":
    unittest.main()
