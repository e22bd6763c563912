#!/usr/bin/env python3
"""center_test.py PROGRAM [unittest options]: runs with a center on one machine: their bits, kills, looks from outside."""

import os
import re
import shutil
import signal
from pathlib import Path

from center_program import LONG, OWN_PACE, SMALL, Center
from program import LIMIT, ProgramTest, long, main


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

    def test_workers_with_weights_of_their_own(self):
        run = [*SMALL, "--lr", "0.01", "--train-steps", "400", "--log-every", "40", "--workers", "2", "--servers", "2", "--sync", "easgd"]
        for optimizer in ("sgd", "nesterov"):
            with self.subTest(optimizer):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*run, "--optimizer", optimizer, "--avg-freq", "4", "--alpha", "0.4", "--eval-every", "200")
                self.require_whole_records(400, 40)
                self.assertGreater(self.summary()["accuracy"], 0.7)
                center = self.summary()["center"]
                self.assertEqual((center["rule"], center["dropped"]), ("easgd", 0))
                self.assertEqual(sum(member["works"] for member in center["members"]), 400, "every step once")
                # Each worker exchanges after every fourth step of its own.
                wanted = sum(member["works"] // 4 for member in center["members"])
                for server in center["servers"]:
                    self.assertEqual((server["updates"], server["duplicates"]), (wanted, 0))
        # Without a spring the center stays where it began.
        hashes = []
        for steps in ("1", "60"):
            shutil.rmtree(self.job)
            self.train(*SMALL, "--workers", "2", "--sync", "easgd", "--alpha", "0", "--train-steps", steps)
            hashes.append(self.summary()["weights_hash"])
        self.assertEqual(hashes[0], hashes[1])

    def test_workers_that_gossip(self):
        run = [*SMALL, "--lr", "0.01", "--train-steps", "400", "--log-every", "40", "--sync", "gossip", "--probability", "0.3"]
        for workers, servers, optimizer in ((3, 1, "sgd"), (2, 3, "nesterov"), (1, 1, "sgd")):
            with self.subTest(workers=workers, servers=servers):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*run, "--workers", workers, "--servers", servers, "--optimizer", optimizer, "--eval-every", "200")
                self.require_whole_records(400, 40)
                self.assertGreater(self.summary()["accuracy"], 0.7)
                center = self.summary()["center"]
                self.assertEqual((center["rule"], center["dropped"]), ("gossip", 0))
                self.assertEqual(sum(member["works"] for member in center["members"]), 400, "every step once")
                self.require_all_shares()
                for server in center["servers"]:
                    # A visit after each step.
                    self.assertEqual((server["updates"], server["duplicates"]), (400, 0))
                    self.assertEqual(server["shares"]["nobodys"], 0)
        # Without letters the center stays where it began.
        hashes = []
        for steps in ("1", "60"):
            shutil.rmtree(self.job)
            self.train(*SMALL, "--workers", "2", "--sync", "gossip", "--probability", "0", "--train-steps", steps)
            hashes.append(self.summary()["weights_hash"])
        self.assertEqual(hashes[0], hashes[1])
        done = self.run_program("train", *SMALL, "--sync", "gossip", "--probability", "1.5", code=2)
        self.assertEqual(done.stderr, "cohort: --probability must be from 0 to 1, not 1.5\n")

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
        self.assertRegex(shown, r"(?m)^async: step \d+ of 6000, [12] members?, 0 gradients dropped$")
        self.assertEqual(shown.count(" (chief): "), 1, shown)
        self.assertEqual(re.findall(r"^server (\d) at unix:\S+: (\d+) parameters,", shown, re.M),
                         [("0", "39755"), ("1", "39755")])
        self.finish(process)
        self.assertNotIn("async: step", self.run_program("status", self.job).stdout)


@long
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
        for rule in ("async", "easgd"):
            shutil.rmtree(self.job, ignore_errors=True)
            self.stop_and_go_on([*OWN_PACE, "--workers", "2", "--sync", rule], signal.SIGINT)
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
        for rule in (["async"], ["easgd", "--avg-freq", "3"], ["gossip", "--probability", "0.2", "--servers", "2"]):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*OWN_PACE, "--workers", "3", "--sync", *rule)
                self.reach(process, lambda: self.newest() >= 600 and self.points())
                first = self.chief()
                os.kill(self.workers()[first], signal.SIGKILL)
                self.reach(process, lambda first=first: self.chief() not in (first, None))
                self.finish(process)
                reached = [point["step"] for point in self.points()]
                self.assertEqual(reached, sorted(set(reached)))
                self.assertLess(reached[0], 1500)  # what the first one wrote is there
                self.assertEqual(reached[-1], 6000)
                self.assertEqual(self.summary()["step"], 6000)
                self.assertGreater(self.summary()["accuracy"], 0.7)
                if rule[0] == "gossip":
                    self.require_all_shares()

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
        self.assertRegex(errors, rf"worker {frozen} gave no sign of life for 3 s: it was [\w ]+ after step \d+")
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
        for victim, rule in ((1, ["async"]), (0, ["async"]), (0, ["easgd", "--avg-freq", "2"]), (1, ["gossip", "--probability", "0.2"]),
                             (0, ["gossip", "--probability", "0.2"])):
            with self.subTest(server=victim, rule=rule):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*OWN_PACE, "--workers", "2", "--servers", "2", "--sync", *rule, "--snapshot-every", "0.2s")
                snapshot = self.job / "snapshots" / f"server-{victim}.snapshot"
                self.reach(process, lambda: self.newest() >= 600 and snapshot.exists())
                os.kill(self.servers()[victim], signal.SIGKILL)
                _, errors = self.finish(process)
                self.assertRegex(errors, rf"warning: server {victim} was ended by signal 9 \(Killed\) after step \d+; "
                                         r"starting it again\n")
                self.assertEqual(self.summary()["step"], 6000)
                self.assertGreater(self.summary()["accuracy"], 0.7)
                self.assertFalse((self.job / "snapshots").exists())
                if rule[0] == "gossip":
                    self.require_all_shares()

    def test_deaths_while_the_chief_does_its_last_duties(self):
        """Which take a while here: an evaluation of many samples, after the last checkpoint."""
        run = [*SMALL, "--test-samples", "200000", "--train-steps", "300", "--checkpoint-every", "50", "--workers", "2",
               "--servers", "2", "--recovery-wait", f"{2 * LIMIT}s"]  # nobody waits for those who cannot come any more
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
                    self.finish(process)
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
                self.assertRegex(done.stderr, rf"\Acohort: {self.job} cannot be replayed exactly from a checkpoint: with --sync {rule[0]}.* which cohort replay {self.job} knows\n\Z")


# ---- strangers


class Notes(Center):
    def test_settings_of_other_rules_are_named(self):
        run = [*SMALL, "--train-steps", "2", "--sync", "async", "--workers", "2", "--backups", "3", "--staleness", "9",
               "--avg-freq", "7", "--scale-stale", "--recovery-wait", "20s"]
        output = self.train(*run).stdout
        for setting, rule in (("backups", "backup"), ("staleness", "ssp"), ("avg-freq", "local and easgd")):
            self.assertIn(f"note: {setting} has no effect here: it is for --sync {rule}\n", output)
        self.assertEqual(output.count("has no effect"), 3, output)
        self.assertFalse((self.job / "receipt.jsonl").exists())  # it could prove nothing

    def test_gossip_has_a_setting_of_its_own(self):
        run = [*SMALL, "--train-steps", "2", "--workers", "2", "--avg-freq", "7", "--alpha", "0.3", "--probability", "0.3"]
        for sync, idle in (("gossip", {"avg-freq": "local and easgd", "alpha": "easgd"}), ("easgd", {"probability": "gossip"})):
            shutil.rmtree(self.job, ignore_errors=True)
            output = self.train(*run, "--sync", sync).stdout
            for setting, rule in idle.items():
                self.assertIn(f"note: {setting} has no effect here: it is for --sync {rule}\n", output)
            self.assertEqual(output.count("has no effect"), len(idle), output)


if __name__ == "__main__":
    main()
