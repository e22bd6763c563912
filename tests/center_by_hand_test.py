#!/usr/bin/env python3
"""center_by_hand_test.py PROGRAM [unittest options]: servers and workers that are started one by one: coming, going, coming back."""

import os
import re
import signal
import socket
import unittest
from pathlib import Path

from center_program import LONG, OWN_PACE, SMALL, ByHand
from program import LIMIT


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
        self.assertRegex(shown, rf"(?m)^bsp: step \d+ of 1000000, 1 member, 0 gradients dropped\n(.*\n)+server 0 at {a}: (.*\n)+"
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
        self.assertRegex(self.run_program("status", folder).stdout,
                         rf"no worker has said anything here\nserver 0 at 127\.0\.0\.1:{port}: no run yet\n\Z")

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


class Refusals(ByHand):
    def test_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        self.assertRegex(self.refused(address, *SMALL, "--recovery-wait", "2s", code=4),
                         rf"server 0 at {address} did not come back within 2 s \(--recovery-wait\): ")

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
