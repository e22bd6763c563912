#!/usr/bin/env python3
"""virtual_test.py PROGRAM [unittest options]: runs in virtual time against real ones, twice, stopped, and refused."""

import json
import os
import signal
import subprocess
import time
import unittest

from program import LIMIT
from training_run import TrainingTest

SMALL = ("--network mnist-fc --dataset synthetic --samples 500 --test-samples 80 --batch-size 48 --grains 12 "
         "--threads 1").split()

SLOW = """
links: {latency: 1ms, bandwidth: 100MB}
compute: {seconds-per-sample: 1ms, jitter: 0.1}
stragglers: [{worker: 2, factor: 4}]
"""


class Virtual(TrainingTest):
    def results(self, job, *keys):
        summary = self.summary(self.folder / job)
        return {key: summary[key] for key in ("weights_hash", "loss", "test_loss", "accuracy", "step", *keys)}

    def virtual(self, job, *arguments):
        return self.train(*arguments, job=self.folder / job)

    def points(self, job, kind="train"):
        lines = (self.folder / job / "metrics.jsonl").read_text().splitlines()
        return [point for point in map(json.loads, lines) if point["kind"] == kind]

    def refused(self, *arguments, code=2):
        done = self.run_program("train", "--job-dir", self.folder / "refused", *SMALL, *arguments, code=code)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse((self.folder / "refused").exists())
        return done.stderr.strip().removeprefix("cohort: ")


class RealRuns(Virtual):
    """A virtual run has the weights of the real one."""

    def test_bulk_synchronous(self):
        run = [*SMALL, "--train-steps", "20", "--receipt-every", "5", "--optimizer", "adam", "--lr", "0.001",
               "--average-decay", "0.9", "--eval-every", "10"]
        self.train(*run, job=self.folder / "real")
        (self.folder / "c.yaml").write_text(SLOW)
        for job, more in (("ring", []), ("center", ["--servers", "2"]), ("backup", ["--sync", "backup", "--backups", "0"])):
            with self.subTest(job):
                if more[:1] == ["--sync"]:
                    self.virtual(job, *run, "--virtual", "5", "--cluster", "c.yaml", *more)
                    self.assertEqual(self.results(job), self.results("real"))
                    continue
                self.virtual(job, *run, "--virtual", "5", "--cluster", "c.yaml", *more)
                self.assertEqual(self.results(job), self.results("real"))
                self.assertEqual(self.run_program("verify", "real", job).stdout, "equal: 4 receipts, of steps 5 to 20\n")

    def test_local_steps_and_diloco(self):
        for rule in (["local", "--avg-freq", "4"], ["diloco", "--inner-steps", "5", "--outer-momentum", "0.9"],
                     ["diloco", "--inner-steps", "5", "--outer-momentum", "0", "--outer-lr", "0.5"]):
            with self.subTest(rule):
                name = "-".join(rule)
                run = [*SMALL, "--train-steps", "18", "--optimizer", "momentum", "--sync", *rule]
                self.train(*run, "--workers", "3", job=self.folder / name)
                self.virtual(f"{name}-virtual", *run, "--virtual", "3")
                self.assertEqual(self.results(f"{name}-virtual"), self.results(name))

    def test_a_lone_worker_at_its_own_pace(self):
        run = [*SMALL, "--train-steps", "20"]
        self.train(*run, job=self.folder / "real")
        for rule in ("async", "ssp"):
            self.virtual(rule, *run, "--virtual", "1", "--sync", rule)
            self.assertEqual(self.results(rule)["weights_hash"], self.results("real")["weights_hash"])

    def test_a_lone_worker_with_weights_of_its_own(self):
        (self.folder / "c.yaml").write_text("links: {latency: 1ms, bandwidth: 100MB}\n")
        run = [*SMALL, "--train-steps", "20", "--optimizer", "momentum", "--sync", "easgd", "--avg-freq", "3", "--alpha", "0.4"]
        self.train(*run, "--workers", "1", job=self.folder / "real")
        for servers in ("1", "3"):
            self.virtual(servers, *run, "--virtual", "1", "--cluster", "c.yaml", "--servers", servers)
            self.assertEqual(self.results(servers)["weights_hash"], self.results("real")["weights_hash"])

    def test_one_group(self):
        run = [*SMALL, "--train-steps", "20", "--optimizer", "adam", "--lr", "0.001", "--average-decay", "0.9", "--eval-every", "10"]
        self.train(*run, job=self.folder / "real")
        (self.folder / "c.yaml").write_text(SLOW + "failures: [{worker: 1, at: 300ms, back: 100ms}]\n")
        groups = ["--sync", "group", "--groups", "1"]
        done = self.virtual("virtual", *run, "--virtual", "4", "--cluster", "c.yaml", "--servers", "2", *groups)
        self.assertEqual(self.results("virtual"), self.results("real"))
        self.assertEqual(self.summary(self.folder / "virtual")["virtual"]["lost"], 4)
        self.assertIn("note: with --sync group a batch is one group's step, and steps are counted over all groups\n", done.stdout)
        self.train(*run, "--workers", "2", *groups, job=self.folder / "real-group")
        self.assertEqual(self.results("virtual")["weights_hash"], self.results("real-group")["weights_hash"])
        own = [*SMALL, "--train-steps", "20", "--optimizer", "momentum", *groups, "--between", "easgd", "--avg-freq", "3", "--alpha", "0.4"]
        (self.folder / "c.yaml").write_text(SLOW)
        self.train(*own, "--workers", "2", job=self.folder / "real-own")
        self.virtual("own", *own, "--virtual", "4", "--cluster", "c.yaml")
        self.assertEqual(self.results("own")["weights_hash"], self.results("real-own")["weights_hash"])

    def test_without_a_spring_the_center_stays_where_it_was(self):
        hashes = set()
        for steps in ("2", "30"):
            self.virtual(steps, *SMALL, "--virtual", "3", "--sync", "easgd", "--alpha", "0", "--train-steps", steps)
            hashes.add(self.results(steps)["weights_hash"])
        self.assertEqual(len(hashes), 1)


    def test_a_lone_worker_that_writes_after_each_step(self):
        (self.folder / "c.yaml").write_text("links: {latency: 1ms, bandwidth: 100MB}\n")
        run = [*SMALL, "--train-steps", "20", "--optimizer", "momentum", "--sync", "gossip", "--probability", "1"]
        self.train(*run, "--workers", "1", job=self.folder / "real")
        for servers in ("1", "3"):
            self.virtual(servers, *run, "--virtual", "1", "--cluster", "c.yaml", "--servers", servers)
            self.assertEqual(self.results(servers)["weights_hash"], self.results("real")["weights_hash"])

    def test_without_letters_the_center_stays_where_it_was(self):
        hashes = set()
        for steps in ("2", "30"):
            self.virtual(steps, *SMALL, "--virtual", "3", "--sync", "gossip", "--probability", "0", "--train-steps", steps)
            hashes.add(self.results(steps)["weights_hash"])
        self.assertEqual(len(hashes), 1)


class Reproducible(Virtual):
    def test_the_same_bits_and_times_for_any_threads(self):
        (self.folder / "c.yaml").write_text(SLOW + "failures: [{mean-time-between: 1s, back: 100ms}]\n")
        keys = ("virtual_s", "samples_per_virtual_s", "virtual")
        for rule in (["async", "--servers", "2"], ["ssp", "--staleness", "2", "--scale-stale"], ["backup", "--backups", "2"],
                     ["local", "--avg-freq", "3"], ["easgd", "--avg-freq", "3", "--servers", "2"],
                     ["group", "--groups", "3", "--servers", "2"], ["group", "--groups", "2", "--between", "easgd", "--avg-freq", "3"],
                     ["gossip", "--probability", "0.4", "--servers", "2"],
                     ["group", "--groups", "3", "--between", "gossip", "--probability", "0.4"]):
            with self.subTest(rule):
                run = [*SMALL, "--train-steps", "60", "--virtual", "6", "--cluster", "c.yaml", "--sync", *rule]
                first = None
                for threads in ("1", "2", "2"):
                    job = f"{rule[0]}-{threads}-{time.monotonic_ns()}"
                    self.virtual(job, *run, "--threads", threads)
                    here = self.results(job, *keys)
                    times = [(p["step"], p["virtual_s"], p["trained_samples"]) for p in self.points(job)]
                    first = first or (here, times)
                    self.assertEqual((here, times), first)
                self.assertGreater(first[0]["virtual"]["failures"], 0)

    def test_groups_of_one_worker_are_workers(self):
        (self.folder / "c.yaml").write_text(SLOW + "failures: [{mean-time-between: 1s, back: 100ms}]\n")
        for rule in ("async", "easgd"):
            with self.subTest(rule):
                run = [*SMALL, "--train-steps", "60", "--virtual", "6", "--cluster", "c.yaml", "--servers", "2", "--avg-freq", "3"]
                self.virtual(rule, *run, "--sync", rule)
                self.virtual(f"{rule}-groups", *run, "--sync", "group", "--groups", "6", "--between", rule)
                keys = ("virtual_s", "samples_per_virtual_s", "virtual")
                self.assertEqual(self.results(f"{rule}-groups", *keys), self.results(rule, *keys))
                self.assertEqual([point["virtual_s"] for point in self.points(f"{rule}-groups")],
                                 [point["virtual_s"] for point in self.points(rule)])

    def test_another_seed_is_another_run(self):
        (self.folder / "c.yaml").write_text(SLOW)
        times = set()
        for seed in ("1", "2"):
            self.virtual(seed, *SMALL, "--train-steps", "10", "--virtual", "3", "--cluster", "c.yaml", "--sync", "async",
                         "--seed", seed)
            times.add(self.results(seed, "virtual_s")["virtual_s"])
        self.assertEqual(len(times), 2)


class Records(Virtual):
    def test_a_straggler_in_the_summary_and_the_console(self):
        (self.folder / "c.yaml").write_text("compute: {seconds-per-sample: 0, seconds-per-step: 1s}\n"
                                            "stragglers: [{worker: 2, factor: 4}]\n")
        run = [*SMALL, "--virtual", "3", "--cluster", "c.yaml", "--sync"]
        done = self.virtual("async", *run, "async", "--train-steps", "9", "--eval-every", "3", "--log-every", "1")
        summary = self.summary(self.folder / "async")
        self.assertEqual(summary["virtual_s"], 8)
        self.assertEqual(summary["virtual"]["staleness"], [[0, 1], [1, 6], [2, 1], [6, 1]])
        self.assertEqual([point["virtual_s"] for point in self.points("async")], [1, 1, 2, 2, 3, 3, 4, 4, 8])
        self.assertEqual([point["trained_samples"] for point in self.points("async", "test")], [144, 288, 432])
        self.assertEqual(summary["samples_per_virtual_s"], 9 * 48 / 8)
        self.assertIn("on 3 virtual workers on 1 lane\n", done.stdout)
        self.assertRegex(done.stdout, r"step 9/9  8.000 virtual s  loss ")
        self.assertRegex(done.stdout, r"step 3 \(2.000 virtual s\): test loss ")
        self.assertIn("8.000 virtual seconds for 432 samples on 3 workers: 54.0 images a virtual second\n", done.stdout)
        self.assertIn("1 worker (straggler): 2 works; each computed 8.000 s, waited for others 0.000 s", done.stdout)
        self.assertIn("staleness: 1.56 on average, 6 at most\n", done.stdout)
        self.run_program("report", self.folder / "async", "-o", "report.html")
        self.assertIn("virtual", (self.folder / "report.html").read_text())
        self.run_program("eval", "--job-dir", self.folder / "async")
        self.assertIn("factor: 4", (self.folder / "async" / "cluster.yaml").read_text())
        # A length in virtual time ends with what is begun then.
        self.virtual("short", *run, "bsp", "--max-time", "10")
        self.assertEqual(self.results("short", "virtual_s")["virtual_s"], 12)

    def test_groups_in_the_summary_and_the_console(self):
        # 48 samples in 12 grains: 24 s for each of a group's two workers, 48 s for the straggler.
        (self.folder / "c.yaml").write_text("compute: {seconds-per-sample: 1s}\nstragglers: [{worker: 3, factor: 2}]\n")
        done = self.virtual("groups", *SMALL, "--virtual", "4", "--cluster", "c.yaml", "--sync", "group", "--groups", "2",
                            "--train-steps", "6", "--log-every", "1")
        summary = self.summary(self.folder / "groups")
        self.assertEqual([point["virtual_s"] for point in self.points("groups")], [24, 48, 48, 72, 96, 144])
        self.assertEqual(summary["virtual"]["servers"], 1)
        # Each group has asked once more than it has pushed, six steps' weights went to a second worker, and six sums met in a ring.
        self.assertEqual(summary["virtual"]["bytes"], (6 + 8 + 6 + 2 * 6) * 4 * 79510)
        self.assertIn("144.000 virtual seconds for 288 samples on 4 workers: 2.0 images a virtual second\n", done.stdout)
        self.assertIn("3 worker: 9 works; each computed 72.000 s, waited for others 24.000 s, was away 0.000 s\n", done.stdout)
        self.assertIn("1 worker (straggler): 3 works; each computed 144.000 s, waited for others 0.000 s, was away 0.000 s\n", done.stdout)

    def test_a_stopped_run_says_that_it_cannot_go_on(self):
        process = self.start_program("train", "--job-dir", self.job, *SMALL, "--virtual", "4", "--sync", "async", "--train-steps",
                                     "10000000", "--log-every", "50", stdout=subprocess.DEVNULL)
        self.wait_for(lambda: (self.job / "metrics.jsonl").exists() and (self.job / "metrics.jsonl").stat().st_size > 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 7)
        self.assertTrue(self.summary()["interrupted"])
        for arguments in (["--virtual", "4"], []):
            done = self.run_program("train", "--job-dir", self.job, *arguments, code=2)
            self.assertIn("has a run already, and virtual runs always start anew; give another --job-dir", done.stderr)


class Refused(Virtual):
    def test_what_only_real_workers_do(self):
        for more, sentence in (
                (["--workers", "2"], "--virtual 4 says how many workers there are; leave --workers out"),
                (["--parallel", "model"], "--virtual and --parallel, --split or --mesh do not go together: virtual workers have whole "
                                          "networks; leave it out"),
                (["--wire", "fp16"], "--virtual and --wire fp16 do not go together: gradients do not leave this process; leave it out"),
                (["--chaos", "1"], "--virtual and --chaos do not go together: the file of --cluster says which workers fail"),
                (["--elastic"], "--virtual and --elastic do not go together: the file of --cluster says which workers fail, and "
                                "whether they come back"),
                (["--histograms"], "--virtual and --histograms do not go together: they are not kept for virtual workers; leave it out"),
                (["--join", "localhost:1"], "--virtual has all workers in one process; leave --join out"),
                (["--sync", "local", "--servers", "1"], "--sync local has no center; leave --servers out, or use bsp, async, ssp, backup, easgd, gossip or group"),
                (["--cluster", "none.yaml"], "there is no cluster file none.yaml")):
            with self.subTest(more):
                self.assertEqual(self.refused("--train-steps", "2", "--virtual", "4", *more), sentence)
        self.assertEqual(self.refused("--train-steps", "2", "--cluster", "none.yaml"),
                         "--cluster is for workers in virtual time; give --virtual N too, or leave it out")
        self.assertIn("13 workers need a grain each", self.refused("--train-steps", "2", "--virtual", "13"))
        self.assertIn("--virtual must be from 0 to 4096, not 5000", self.refused("--virtual", "5000"))

    def test_under_a_launcher(self):
        environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                       "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        done = self.run_program("train", *SMALL, "--virtual", "4", "--train-steps", "2", code=2, env=environment)
        self.assertIn("--virtual has all workers in one process, and this is one of 2 tasks", done.stderr)

    def test_a_wrong_cluster(self):
        (self.folder / "c.yaml").write_text("links: {latency: 5 days}\n")
        self.assertEqual(self.refused("--train-steps", "2", "--virtual", "4", "--cluster", "c.yaml"),
                         "c.yaml:1:18: 'latency' is a time such as 50us, 2ms, 10s, 5m or 1h, not '5 days'")
        (self.folder / "c.yaml").write_text("hosts: [{name: a, workers: 3}]\n")
        self.assertIn("the hosts of c.yaml have places for 3 workers, and there are 4",
                      self.refused("--train-steps", "2", "--virtual", "4", "--cluster", "c.yaml"))


if __name__ == "__main__":
    unittest.main()
