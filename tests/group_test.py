#!/usr/bin/env python3
"""group_test.py PROGRAM [unittest options]: groups of workers, each one member of a center: their bits, kills, what is refused."""

import contextlib
import os
import re
import shutil
import signal
from pathlib import Path

from center_program import OWN_PACE, SMALL, Center
from program import long, main


class Groups(Center):
    def ranks(self):
        """Processes of groups' workers, by their numbers."""
        found = {}
        for process in self.alive():
            with contextlib.suppress(OSError):
                variables = dict(part.split(b"=", 1) for part in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                                 if b"=" in part)
                if b"COHORT_GROUP" in variables and b"OMPI_COMM_WORLD_RANK" in variables:
                    found[int(variables[b"COHORT_GROUP"]) + int(variables[b"OMPI_COMM_WORLD_RANK"])] = process
        return found

    def results(self, job=None):
        summary = self.summary(job)
        return {key: summary[key] for key in ("weights_hash", "test_loss", "accuracy", "step")}

    def require_whole(self, steps, members):
        """Every step once, and by all members."""
        summary = self.summary()
        self.assertEqual((summary["step"], summary["interrupted"]), (steps, False))
        center = summary["center"]
        self.assertEqual(len(center["members"]), members)
        self.assertEqual(sum(member["works"] for member in center["members"]), steps)
        self.assertGreater(summary["accuracy"], 0.7)
        return center


class SameBits(Groups):
    def test_one_group_is_bulk_synchronous(self):
        for more in ([], ["--optimizer", "adam", "--average-decay", "0.9", "--eval-every", "15"]):
            run = [*SMALL, "--lr", "0.005", "--train-steps", "30", *more]
            shutil.rmtree(self.folder / "plain", ignore_errors=True)
            self.train(*run, "--workers", "2", job=self.folder / "plain")
            for workers, servers in ((2, 1), (3, 2)):
                with self.subTest(more, workers=workers, servers=servers):
                    shutil.rmtree(self.job, ignore_errors=True)
                    self.train(*run, "--sync", "group", "--groups", "1", "--workers", workers, "--servers", servers)
                    self.assertEqual(self.results(), self.results(self.folder / "plain"))

    def test_a_group_of_one_worker_is_plain_training(self):
        run = [*SMALL, "--lr", "0.005", "--train-steps", "30"]
        self.train(*run, job=self.folder / "plain")
        self.train(*run, "--sync", "group", "--groups", "1")
        self.assertEqual(self.results(), self.results(self.folder / "plain"))

    def test_two_groups_are_replayed_to_the_bit(self):
        self.train(*SMALL, "--lr", "0.01", "--train-steps", "300", "--checkpoint-every", "100", "--workers", "4", "--sync", "group",
                   "--groups", "2", "--servers", "2")
        center = self.require_whole(300, members=2)
        self.assertEqual(center["rule"], "async")
        for server in center["servers"]:
            self.assertEqual((server["updates"], server["duplicates"]), (300, 0))
        done = self.run_program("replay", self.job)
        self.assertIn(f"weights {self.summary()['weights_hash']}\n", done.stdout)
        for worker in range(4):
            self.assertIn(", own step ", (self.job / "logs" / f"worker-{worker}.txt").read_text())


class OwnPace(Groups):
    def test_groups_of_one_are_workers_that_do_not_wait(self):
        done = self.train(*SMALL, "--lr", "0.01", "--train-steps", "400", "--workers", "4", "--sync", "group", "--groups", "4")
        self.assertIn("with --sync group a batch is one group's step", done.stdout)
        self.require_whole(400, members=4)
        self.assertFalse((self.job / "logs" / "group-0.txt").exists(), "nobody needs an mpirun")

    def test_groups_with_weights_of_their_own(self):
        run = [*SMALL, "--lr", "0.01", "--workers", "4", "--servers", "2", "--sync", "group", "--groups", "2", "--between", "easgd"]
        self.train(*run, "--train-steps", "400", "--optimizer", "nesterov", "--avg-freq", "4", "--alpha", "0.4")
        center = self.require_whole(400, members=2)
        self.assertEqual(center["rule"], "easgd")
        # Each group exchanges after every fourth step of its own.
        wanted = sum(member["works"] // 4 for member in center["members"])
        for server in center["servers"]:
            self.assertEqual((server["updates"], server["duplicates"]), (wanted, 0))
        replayed = self.run_program("replay", self.job).stdout
        self.assertIn(self.summary()["weights_hash"], replayed)

    def test_a_run_is_looked_at(self):
        process = self.start(*OWN_PACE, "--workers", "4", "--sync", "group", "--groups", "2")
        self.reach(process, lambda: self.newest() >= 200)
        shown = self.run_program("status", self.job).stdout
        self.assertEqual(re.findall(r"(?m)^worker (\d) ", shown), ["0", "1", "2", "3"], shown)
        self.assertRegex(shown, r"(?m)^async: step \d+ of 6000, [12] members?, 0 gradients dropped$")
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)
        self.assertEqual(self.summary()["step"], self.newest())


class Refusals(Groups):
    def refused(self, *arguments):
        done = self.run_program("train", "--job-dir", self.folder / "refused", *SMALL, "--train-steps", "10", "--sync", "group",
                                *arguments, code=2, timeout=30)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_what_makes_no_groups(self):
        for arguments, sentence in (
                (["--workers", "4"], "--sync group needs the number of groups: --groups 1, 2, 4 would do for 4 workers"),
                (["--workers", "2", "--groups", "3"], "3 groups need a worker each, and there are 2; --groups 1, 2 would do"),
                (["--workers", "4", "--groups", "3"], "4 workers do not divide into 3 groups of as many; --groups 1, 2, 4 would do"),
                (["--workers", "9", "--groups", "1"], "the 9 workers of a group need a grain each"),
                (["--workers", "4", "--groups", "2", "--between", "bsp"], "between groups"),
                (["--workers", "4", "--groups", "2", "--between", "easgd", "--histograms"], "--histograms needs a gradient"),
                (["--workers", "4", "--groups", "2", "--wire", "fp16"], "--wire fp16 is for workers without a center"),
                (["--virtual", "4", "--groups", "3"],
                 "4 workers do not divide into 3 groups of as many; --groups 1, 2, 4 would do, or --virtual 6"),
                (["--workers", "4", "--groups", "2", "--join", "127.0.0.1:1"], "with --join this is one worker"),
                (["--worker-hosts", "127.0.0.1:1,127.0.0.1:2", "--groups", "3", "--job-name", "worker", "--task-index", "0"],
                 "3 groups need a worker each, and there are 2")):
            with self.subTest(arguments):
                self.assertIn(sentence, self.refused(*arguments))

    def test_groups_of_another_rule_are_said_to_be_idle(self):
        done = self.train(*SMALL, "--train-steps", "3", "--sync", "async", "--groups", "2", "--between", "easgd")
        for setting in ("groups", "between"):
            self.assertIn(f"note: {setting} has no effect here: it is for --sync group", done.stdout)


@long
class Kills(Groups):
    STEPS = 2000
    RUN = [*OWN_PACE, "--train-steps", str(STEPS), "--workers", "4", "--servers", "2", "--sync", "group", "--groups", "2"]

    def test_a_killed_worker_costs_its_group_alone(self):
        process = self.start(*self.RUN)
        self.reach(process, lambda: self.newest() >= 400 and len(self.ranks()) == 4)
        before = self.ranks()
        os.kill(before[3], signal.SIGKILL)
        self.reach(process, lambda: len(self.ranks()) == 4 and not set(self.ranks().values()) & {before[2], before[3]})
        after = self.ranks()
        self.assertEqual((after[0], after[1]), (before[0], before[1]), "the other group goes on")
        _, errors = self.finish(process)
        self.assertRegex(errors, r"worker 3 was ended by signal 9 \(Killed\) after step \d+; the others go on, "
                                 r"starting its group \(workers 2 to 3\) again")
        self.assertEqual(errors.count("again"), 1, errors)
        self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (self.STEPS, False))
        self.assertGreater(self.summary()["accuracy"], 0.7)
        self.assertIn(f"weights {self.summary()['weights_hash']}\n", self.run_program("replay", self.job).stdout)

    def test_a_frozen_worker_is_found_and_named(self):
        process = self.start(*self.RUN)
        self.reach(process, lambda: self.newest() >= 200 and len(self.ranks()) == 4)
        before = self.ranks()
        os.kill(before[1], signal.SIGSTOP)
        _, errors = self.finish(process)
        self.assertRegex(errors, r"worker 1 gave no sign of life for 3 s: .*; worker 0 waits for it")
        self.assertIn("starting its group (workers 0 to 1) again", errors)
        self.assertEqual(self.summary()["step"], self.STEPS)

    def test_the_only_group_comes_back(self):
        run = [*SMALL, "--train-steps", "1500", "--checkpoint-every", "50", "--stall-timeout", "3"]
        self.train(*run, job=self.folder / "plain")
        process = self.start(*run, "--workers", "2", "--sync", "group", "--groups", "1")
        self.reach(process, lambda: self.newest() >= 200 and len(self.ranks()) == 2)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.finish(process)
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "plain")["weights_hash"])

    def test_stopped_by_a_signal_it_goes_on(self):
        for between in ("async", "easgd"):
            with self.subTest(between):
                shutil.rmtree(self.job, ignore_errors=True)
                run = [*self.RUN, "--between", between]
                process = self.start(*run)
                self.reach(process, lambda: self.newest() >= 200)
                process.send_signal(signal.SIGTERM)
                output, _ = self.finish(process, code=75)
                self.assertIn("stopped by a signal", output)
                reached = self.newest()
                self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (reached, True))
                self.train(*run)
                self.assertGreaterEqual(self.summary()["start_step"], reached)
                self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (self.STEPS, False))

    def test_a_lost_server_is_found_again(self):
        process = self.start(*self.RUN, "--snapshot-every", "0.3s")
        self.reach(process, lambda: self.newest() >= 400 and len(self.ranks()) == 4)
        before = self.ranks()
        os.kill(self.servers()[1], signal.SIGKILL)
        self.reach(process, lambda: self.newest() >= 1000)
        self.assertEqual(self.ranks(), before, "no group is started again for that")
        self.finish(process)
        self.assertEqual(self.summary()["step"], self.STEPS)

    def test_chaos(self):
        process = self.start(*self.RUN, "--chaos", "5", "--max-restarts", "20")
        _, errors = self.finish(process)
        self.assertIn("starting its group", errors)
        self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (self.STEPS, False))


if __name__ == "__main__":
    main()
