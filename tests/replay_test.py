#!/usr/bin/env python3
"""replay_test.py PROGRAM [unittest options]: runs with a center, computed again from their journals, to the bit."""

import os
import re
import shutil
import signal
import unittest

from center_program import SMALL, ByHand, Center

RUN = [*SMALL, "--lr", "0.0005", "--optimizer", "momentum", "--checkpoint-every", "100", "--stall-timeout", "3"]


class Replay(Center):
    def replay(self, *more, code=0):
        return self.run_program("replay", self.job, *more, code=code)

    def require_same(self, *more, lost=None):
        """The replay ends with the weights of the run."""
        done = self.replay(*more)
        summary = self.summary()
        self.assertIn(f"weights {summary['weights_hash']}\n", done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^identical to the checkpoints? of steps? .*\b{self.newest()}$")
        self.assertNotIn("different", done.stdout)
        if lost is not None:
            self.assertIn(f", {lost} update{'' if lost == 1 else 's'} lost\n", done.stdout)
        return done.stdout

    def journals(self):
        return sorted((self.job / "journal").glob("*.journal"))

    def kill(self, process, victim):
        os.kill(victim, signal.SIGKILL)
        _, errors = self.finish(process)
        self.assertIn("starting it again", errors)


class Calm(Replay):
    def test_workers_at_their_own_pace(self):
        for servers, rule in ((1, ["async"]), (3, ["async", "--scale-stale"]), (2, ["ssp", "--staleness", "1"])):
            with self.subTest(servers=servers, rule=rule):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*RUN, "--train-steps", "250", "--workers", "2", "--servers", servers, "--sync", *rule)
                self.assertEqual(len(self.journals()), servers)
                shown = self.require_same(lost=0)
                self.assertIn(f"replayed steps 0 to 250 in ", shown)
                self.assertIn(f": {250 * servers} updates of ", shown)

    def test_steps_that_all_share(self):
        for rule, workers in ((["backup", "--backups", "1"], 3), (["bsp"], 2)):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*RUN, "--train-steps", "120", "--workers", workers, "--servers", "2", "--sync", *rule)
                self.require_same(lost=0)
                self.require_same("--threads", "1")


class Deaths(Replay):
    def test_a_killed_worker(self):
        process = self.start(*RUN, "--train-steps", "1500", "--workers", "2", "--servers", "2", "--sync", "async")
        self.reach(process, lambda: self.newest() >= 300 and len(self.workers()) == 2)
        self.kill(process, self.workers()[0])
        self.require_same(lost=0)

    def test_a_killed_server(self):
        """What it had done after its snapshot is lost, but not what others had seen of it."""
        for victim in (1, 0):
            with self.subTest(server=victim):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*RUN, "--train-steps", "2500", "--workers", "3", "--servers", "2", "--sync", "async",
                                     "--snapshot-every", "0.3s")
                snapshot = self.job / "snapshots" / f"server-{victim}.snapshot"
                self.reach(process, lambda: self.newest() >= 300 and snapshot.exists())
                self.kill(process, self.servers()[victim])
                shown = self.require_same()
                self.assertIn("1 opening, 3 lives of servers, ", shown)
                self.assertGreater(int(re.search(r"([\d,]+) updates? lost", shown)[1].replace(",", "")), 0)

    def test_a_killed_server_of_steps_that_all_share(self):
        process = self.start(*RUN, "--train-steps", "800", "--workers", "3", "--servers", "2", "--sync", "backup", "--backups", "1")
        self.reach(process, lambda: self.newest() >= 200)
        self.kill(process, self.servers()[1])
        self.assertIn("2 openings, ", self.require_same())


class Resumed(Replay):
    def test_stopped_and_gone_on_with_other_servers(self):
        run = [*RUN, "--train-steps", "1500", "--workers", "2", "--sync", "async", "--keep", "2"]
        process = self.start(*run, "--servers", "2")
        self.reach(process, lambda: self.newest() >= 300)
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)
        self.train(*run, "--servers", "3", "--train-steps", "900" if self.newest() < 900 else "1500")
        self.train(*run, "--servers", "1")
        shown = self.require_same()
        self.assertIn("replayed steps 0 to 1500 in ", shown)
        self.assertRegex(shown, r", [23] openings, ")
        # Without the first journals it begins with a checkpoint, where that is still there.
        first = min(self.journals(), key=lambda path: path.stat().st_mtime)
        opening = first.name.split("-")[0]
        for path in self.journals():
            if path.name.startswith(opening):
                path.unlink()
        done = self.replay(code=2)
        self.assertRegex(done.stderr, r"\Acohort: the journal \S+ of server \d is missing; name the folder that has it\n\Z")


class OwnWeights(Replay):
    """Workers with weights, momentum and a rule of their own, which only their exchanges tell of."""

    EASGD = [*RUN, "--sync", "easgd", "--alpha", "0.3"]

    def test_of_nobody_who_dies(self):
        for servers, every in ((1, 1), (3, 4)):
            with self.subTest(servers=servers):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*self.EASGD, "--train-steps", "250", "--workers", "2", "--servers", servers, "--avg-freq", every)
                self.assertEqual(len(self.journals()), servers)
                shown = self.require_same(lost=0)
                self.require_same("--threads", "1")
                done = re.search(r"replayed steps 0 to 250 in .*: ([\d,]+) updates of ([\d,]+) gradients", shown)
                exchanges = self.summary()["center"]["servers"][0]["updates"]
                self.assertEqual(int(done[1]), servers * exchanges)
                self.assertEqual(int(done[2]), every * exchanges)

    def test_a_killed_worker(self):
        process = self.start(*self.EASGD, "--train-steps", "2000", "--workers", "2", "--servers", "2", "--avg-freq", "3")
        self.reach(process, lambda: self.newest() >= 300 and len(self.workers()) == 2)
        self.kill(process, self.workers()[0])
        self.require_same(lost=0)

    def test_a_killed_server(self):
        for victim in (1, 0):
            with self.subTest(server=victim):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*self.EASGD, "--train-steps", "3000", "--workers", "3", "--servers", "2", "--avg-freq", "2",
                                     "--snapshot-every", "0.3s")
                snapshot = self.job / "snapshots" / f"server-{victim}.snapshot"
                self.reach(process, lambda: self.newest() >= 300 and snapshot.exists())
                self.kill(process, self.servers()[victim])
                self.assertIn("1 opening, 3 lives of servers, ", self.require_same())

    def test_a_killed_server_that_kept_nothing(self):
        """The run is opened again, and all workers begin anew."""
        process = self.start(*self.EASGD, "--train-steps", "2000", "--workers", "2", "--servers", "2", "--avg-freq", "2",
                             "--snapshot-every", "0")
        self.reach(process, lambda: self.newest() >= 300)
        self.kill(process, self.servers()[0])
        self.assertIn("2 openings, ", self.require_same())

    def test_stopped_and_gone_on_with_another_spring(self):
        run = [*self.EASGD, "--train-steps", "1500", "--workers", "2"]
        process = self.start(*run, "--servers", "2", "--avg-freq", "3")
        self.reach(process, lambda: self.newest() >= 300)
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)
        self.train(*run, "--servers", "1", "--avg-freq", "5", "--alpha", "0.6", "--momentum", "0.5")
        self.assertIn("2 openings, ", self.require_same())


class Gossip(Replay):
    """Workers that send each other letters, through the servers."""

    GOSSIP = [*RUN, "--sync", "gossip", "--probability", "0.3"]

    def test_of_nobody_who_dies(self):
        for servers, workers in ((1, 2), (3, 3)):
            with self.subTest(servers=servers):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*self.GOSSIP, "--train-steps", "250", "--workers", workers, "--servers", servers)
                self.assertEqual(len(self.journals()), servers)
                shown = self.require_same(lost=0)
                self.require_same("--threads", "1")
                # Each step is a visit to each server.
                self.assertRegex(shown, rf"replayed steps 0 to 250 in .*: {250 * servers} updates of 250 gradients")

    def test_a_killed_worker(self):
        process = self.start(*self.GOSSIP, "--train-steps", "2000", "--workers", "3", "--servers", "3")
        self.reach(process, lambda: self.newest() >= 300 and len(self.workers()) == 3)
        self.kill(process, self.workers()[0])
        self.require_same(lost=0)

    def test_a_killed_server(self):
        for servers, victim in ((2, 1), (2, 0), (1, 0)):
            with self.subTest(servers=servers, server=victim):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*self.GOSSIP, "--train-steps", "3000", "--workers", "3", "--servers", servers,
                                     "--snapshot-every", "0.3s")
                snapshot = self.job / "snapshots" / f"server-{victim}.snapshot"
                self.reach(process, lambda: self.newest() >= 300 and snapshot.exists())
                self.kill(process, self.servers()[victim])
                self.assertIn(f"1 opening, {servers + 1} lives of servers, ", self.require_same())

    def test_stopped_and_gone_on_with_more_letters(self):
        run = [*self.GOSSIP, "--train-steps", "1500", "--workers", "2"]
        process = self.start(*run, "--servers", "2")
        self.reach(process, lambda: self.newest() >= 300)
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)
        self.train(*run, "--servers", "1", "--probability", "0.7", "--momentum", "0.5")
        self.assertIn("2 openings, ", self.require_same())


class Damage(Replay):
    def setUp(self):
        super().setUp()
        self.train(*RUN, "--train-steps", "150", "--workers", "2", "--servers", "2", "--sync", "async", "--keep", "10")

    def test_a_changed_byte_is_named(self):
        victim = self.journals()[1]
        data = bytearray(victim.read_bytes())
        data[-300] ^= 1
        victim.write_bytes(data)
        done = self.replay(code=3)
        self.assertRegex(done.stderr, rf"\Acohort: {victim} is damaged: the record of version \d+, at byte \d+, does not fit its check\n\Z")

    def test_a_missing_journal_is_named(self):
        victim = self.journals()[1]
        victim.unlink()
        done = self.replay(code=2)
        self.assertEqual(done.stderr,
                         f"cohort: the journal {victim.name} of server 1 is missing; name the folder that has it\n")

    def test_a_journal_that_ends_too_early_is_named(self):
        victim = self.journals()[0]
        victim.write_bytes(victim.read_bytes()[:-7])
        done = self.replay(code=2)
        self.assertRegex(done.stderr, rf"\Acohort: the journal {victim.name} of server 0 ends with version 14\d.*, and version 150 "
                                      r"is needed\n\Z")

    def test_other_bits_are_found(self):
        """As if the run had been another: with samples in another order, and with other weights at first."""
        config = self.job / "config.yaml"
        text = config.read_text()
        first = min(int(path.stem.split("-")[1]) for path in self.checkpoints())
        for setting, other, where in (
                ("shuffle: true", "shuffle: false", rf"the weights of the checkpoint of step {first} differ, first in \S+"),
                ("seed: 1", "seed: 2", "the weights differ where the run was opened at step 0")):
            with self.subTest(setting):
                self.assertIn(setting, text)
                config.write_text(text.replace(setting, other))
                done = self.replay(code=5)
                self.assertRegex(done.stdout, rf"(?m)^different: {where}$")
                self.assertNotIn("identical", done.stdout)

    def test_instructions_that_are_not_there(self):
        config = self.job / "config.yaml"
        config.write_text(re.sub(r"isa: \w+", "isa: avx9", config.read_text()))
        done = self.replay(code=2)
        self.assertRegex(done.stderr, r"\Acohort: .*avx9.*\n\Z")

    def test_without_journals(self):
        shutil.rmtree(self.job)
        self.train(*RUN, "--train-steps", "5", "--sync", "async", "--no-journal")
        self.assertFalse((self.job / "journal").exists())
        done = self.replay(code=2)
        self.assertRegex(done.stderr, rf"\Acohort: {self.job} has no journal: .*--no-journal.*\n\Z")
        self.assertRegex(self.run_program("replay", self.folder / "nowhere", code=2).stderr,
                         r"\Acohort: there is no folder .*nowhere\n\Z")


class OwnFolders(ByHand):
    def test_servers_with_folders_of_their_own(self):
        servers = [self.serve(index=index, servers=2) for index in (0, 1)]
        workers = [self.join([address for _, address in servers], *RUN, "--train-steps", "200", "--sync", "async")
                   for _ in range(2)]
        for process in [*workers, *(process for process, _ in servers)]:
            self.finish(process)
        self.assertIn("has no journal", self.run_program("replay", self.job, code=2).stderr)
        done = self.run_program("replay", self.job, self.folder / "server-0", self.folder / "server-1")
        self.assertIn(f"weights {self.summary()['weights_hash']}\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
