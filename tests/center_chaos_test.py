#!/usr/bin/env python3
"""center_chaos_test.py PROGRAM [unittest options]: runs with a center through many kills, and through a cut network."""

import os
import random
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from center_program import SMALL, ByHand, Center
from net_hosts import Hosts
from program import PROGRAM

CLOTHES = Path("/usr/share/datasets/fashion-mnist")
LIMIT = 400  # seconds that no run here takes


class Chaos(Center):
    def disturb(self, process, events):
        """Kills at random moments, each when the run has gone on since the last death of that kind."""
        chance = random.Random(1)
        kinds = [kind for kind, count in events.items() for _ in range(count)]
        chance.shuffle(kinds)
        killed = set()
        reached = {kind: -1 for kind in events}
        for kind in kinds:
            time.sleep(chance.uniform(0, 0.5))
            found = {}

            def ready():
                found.update(self.workers() if kind == "worker" else self.servers())
                return set(found.values()) - killed and self.newest() > reached[kind]
            self.reach(process, ready)
            reached[kind] = self.newest() if kind == "server" else -1
            victim = chance.choice(sorted(set(found.values()) - killed))
            killed.add(victim)
            os.kill(victim, signal.SIGKILL)

    def require_named(self, errors, events):
        for kind, count in events.items():
            said = re.findall(rf"^warning: {kind} \d was ended by signal 9 \(Killed\) after step \d+; .*starting it again$",
                              errors, re.M)
            self.assertEqual(len(said), count, errors)
        self.assertNotIn("failed after step", errors)

    def test_workers_that_do_not_wait_learn_through_kills(self):
        events = {"worker": 50, "server": 5}
        data = ["--dataset", "synthetic", "--samples", "5000", "--test-samples", "1000"]
        if CLOTHES.exists():
            data = ["--dataset", "fashion-mnist", "--data-dir", CLOTHES]
            print(f"the data are Fashion-MNIST, of {CLOTHES}", flush=True)
        else:
            print(f"the data are synthetic: {CLOTHES} does not exist", flush=True)
        run = ["--network", "mnist-fc", *data, "--batch-size", "50", "--grains", "1", "--threads", "1", "--lr", "0.02",
               "--train-steps", "40000", "--sync", "async", "--workers", "3", "--servers", "2", "--checkpoint-every", "500",
               "--snapshot-every", "1s", "--max-restarts", "100"]
        self.train(*run, job=self.folder / "calm", timeout=LIMIT)
        calm = self.summary(self.folder / "calm")["accuracy"]
        process = self.start(*run)
        self.disturb(process, events)
        _, errors = self.finish(process, limit=LIMIT)
        self.require_named(errors, events)
        summary = self.summary()
        self.assertEqual((summary["step"], summary["interrupted"]), (40000, False))
        # Calm runs on Fashion-MNIST differ by up to 0.004 among themselves.
        self.assertGreater(summary["accuracy"], calm - 0.015)
        reached = [point["step"] for point in self.points()]
        self.assertEqual(reached, sorted(set(reached)))
        self.assertEqual(reached[-1], 40000)

    def test_bulk_synchronous_workers_end_with_the_calm_weights(self):
        events = {"worker": 10, "server": 3}
        run = [*SMALL, "--train-steps", "6000", "--checkpoint-every", "50"]
        self.train(*run, job=self.folder / "calm")
        process = self.start(*run, "--workers", "3", "--servers", "2", "--max-restarts", "100")
        self.disturb(process, events)
        _, errors = self.finish(process, limit=LIMIT)
        self.require_named(errors, events)
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])


class CutNetwork(ByHand):
    """A server and two workers on hosts of their own, joined by another that plays the switch."""

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 3)
        self.server_host, *self.worker_hosts = self.hosts.names

    def start_on(self, host, *arguments):
        process = subprocess.Popen(self.hosts.on(host, PROGRAM, *arguments), cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(self.end, process)
        return process

    def serve_there(self):
        server = self.start_on(self.server_host, "serve", "--listen", "10.77.0.1:7000", "--job-dir", self.folder / "server")
        self.assertIn("credentials.pem (--credentials); keep it secret", server.stdout.readline())
        self.assertIn("listens at 10.77.0.1:7000", server.stdout.readline())
        return server, self.folder / "server" / "credentials.pem"

    def status(self, credentials):
        """As somebody on the server's own host sees it."""
        process = self.start_on(self.server_host, "status", "10.77.0.1:7000", "--credentials", credentials)
        return self.finish(process)[0]

    def test_a_cut_that_is_mended(self):
        run = [*SMALL, "--train-steps", "6000", "--checkpoint-every", "50"]
        self.train(*run, job=self.folder / "calm")
        server, credentials = self.serve_there()
        worker = self.start_on(self.worker_hosts[0], "train", "--job-dir", self.job, *run, "--join", "10.77.0.1:7000",
                               "--credentials", credentials, "--recovery-wait", "120s")
        self.reach(worker, lambda: self.newest() >= 500)
        self.assertIn(" 1 member,", self.status(credentials))
        self.hosts.plug("h2", "down")
        cut = time.monotonic()
        # No word of it comes to either side; the server finds out after 15 s without an answer.
        self.reach(worker, lambda: " 0 members," in self.status(credentials))
        self.assertGreater(time.monotonic() - cut, 5)
        self.wait_for(lambda: time.monotonic() - cut > 20)  # the worker's own limit is over too
        reached = self.newest()
        self.assertLess(reached, 6000)
        self.hosts.plug("h2", "up")
        self.finish(worker)
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])

    def done(self, credentials):
        return int(re.search(r"step (\d+) of", self.status(credentials)).group(1))

    def test_a_cut_from_one_of_two_workers_that_do_not_wait(self):
        server, credentials = self.serve_there()
        # Jobs of their own: two hosts share no folder.
        stays, goes = (self.start_on(host, "train", "--job-dir", self.folder / host, *SMALL, "--train-steps", "100000000",
                                     "--sync", "async", "--lr", "0.01", "--checkpoint-every", "0", "--eval-every", "0",
                                     "--join", "10.77.0.1:7000", "--credentials", credentials, "--recovery-wait", "120s")
                       for host in self.worker_hosts)
        self.reach(stays, lambda: " 2 members," in self.status(credentials))
        self.hosts.plug("h3", "down")
        cut = time.monotonic()
        self.reach(stays, lambda: " 1 member," in self.status(credentials))
        self.assertGreater(time.monotonic() - cut, 5)
        # The other goes on alone.
        reached = self.done(credentials)
        self.reach(stays, lambda: self.done(credentials) > reached)
        self.assertIsNone(goes.poll())
        self.hosts.plug("h3", "up")
        self.reach(goes, lambda: " 2 members," in self.status(credentials))
        server.send_signal(signal.SIGTERM)
        for process in (stays, goes, server):
            self.finish(process, code=75)


if __name__ == "__main__":
    unittest.main()
