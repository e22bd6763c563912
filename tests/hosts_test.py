#!/usr/bin/env python3
"""hosts_test.py PROGRAM [unittest options]: runs across hosts with addresses of their own, and what the doctor finds there."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

from net_hosts import Hosts
from program import LIMIT, PROGRAM, long, main, processes_with
from training_run import TrainingTest

RUN = ("--network mnist-fc --dataset synthetic --samples 500 --test-samples 80 --batch-size 40 --grains 8 --threads 1 "
       "--checkpoint-every 100").split()
LONG = [*RUN, "--train-steps", "1500"]
SHORT = [*RUN, "--train-steps", "200"]
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


class HostsTest(TrainingTest):
    hashes = {}

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 3)
        # By it a test's processes are known, whoever their parent is.
        self.mark = str(self.folder)
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in processes_with("COHORT_TEST_HOSTS", self.mark):
            os.kill(process, signal.SIGKILL)
        self.wait_for(lambda: not processes_with("COHORT_TEST_HOSTS", self.mark), limit=20)

    def launch(self, words):
        process = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "COHORT_TEST_HOSTS": self.mark})
        self.addCleanup(self.end, process)
        return process

    def start_training(self, *arguments, hosts=None):
        return self.launch(self.hosts.mpirun(hosts or self.hosts.names, PROGRAM, "train", "--quiet", "--job-dir", self.job,
                                             *arguments))

    def calm(self, arguments):
        """The weights of this run on one worker."""
        key = tuple(arguments)
        if key not in HostsTest.hashes:
            self.train("--quiet", *arguments, job=self.folder / "calm")
            HostsTest.hashes[key] = self.summary(self.folder / "calm")["weights_hash"]
        return HostsTest.hashes[key]

    def require_calm_weights(self, arguments):
        self.assertEqual(self.summary()["weights_hash"], self.calm(arguments))


@long
class Training(HostsTest):
    def test_three_hosts_have_the_bits_of_one_worker(self):
        _, errors = self.finish(self.start_training(*SHORT))
        self.assertEqual(errors, "")
        self.assertEqual(len(self.summary()["workers"]), 3)
        self.require_calm_weights(SHORT)

    def test_a_cable_that_is_out_for_5_seconds(self):
        process = self.start_training(*LONG)
        self.reach(process, self.checkpoints)
        self.hosts.plug("h3", "down")
        time.sleep(5)
        self.assertIsNone(process.poll())
        self.hosts.plug("h3", "up")
        self.finish(process)
        self.require_calm_weights(LONG)

    def test_a_cable_that_stays_out(self):
        process = self.start_training(*LONG, "--stall-timeout", "6")
        self.reach(process, self.checkpoints)
        self.hosts.plug("h3", "down")
        cut = time.monotonic()
        # mpirun itself would wait for that host much longer, and is ended.
        _, errors = self.finish(process, code=-signal.SIGKILL, limit=60)
        self.assertGreater(time.monotonic() - cut, 5)
        said = [line for line in errors.splitlines() if line.startswith("cohort: ")]
        self.assertTrue(said, errors)
        self.assertRegex("\n".join(said), r"worker [01]: (worker 2 on h3 gave no sign of life|all workers wait for others and nothing has moved) for \d+ s: ")
        # What is left on that host has nobody to hear of the end.
        self.end_all()
        self.assertLess(int(self.checkpoints()[-1].stem.split("-")[1]), 1500)
        self.finish(self.start_training(*LONG, hosts=["h1", "h2"]))
        self.require_calm_weights(LONG)

    def test_a_center_with_tls(self):
        server = self.launch(self.hosts.on("h1", PROGRAM, "serve", "--listen", "10.77.0.1:7000", "--job-dir",
                                           self.folder / "server"))
        credentials = self.folder / "server" / "credentials.pem"
        for _ in range(2):
            line = server.stdout.readline()
        self.assertIn("listens at 10.77.0.1:7000", line)
        workers = [self.launch(self.hosts.on(host, PROGRAM, "train", "--quiet", "--job-dir", self.job, *SHORT, "--join",
                                             "10.77.0.1:7000", "--credentials", credentials)) for host in ("h2", "h3")]
        for process in (*workers, server):
            self.finish(process)
        self.require_calm_weights(SHORT)

    def test_a_group_over_hosts(self):
        self.finish(self.start_training(*SHORT, "--sync", "group", "--groups", "1", "--server-tasks", "1"))
        self.require_calm_weights(SHORT)
        self.assertTrue((self.job / "credentials.pem").exists())

    def test_a_group_meets_again_after_its_cable_was_out(self):
        run = [*RUN, "--train-steps", "3000", "--sync", "group", "--groups", "1", "--ps-hosts", "10.77.0.1:7000", "--worker-hosts",
               "10.77.0.[2-3]:7000"]
        server, first, second = (self.launch(self.hosts.on(host, PROGRAM, "train", "--quiet", "--job-dir", self.job, *run,
                                                           "--job-name", role, "--task-index", index))
                                 for host, role, index in (("h1", "ps", "0"), ("h2", "worker", "0"), ("h3", "worker", "1")))
        self.reach(first, self.checkpoints)
        self.hosts.plug("h3", "down")
        time.sleep(25)
        self.hosts.plug("h3", "up")
        _, errors = self.finish(first)
        self.assertRegex(errors, r"worker 0 failed after step \d+: worker 1 is gone: [^\n]*; starting it again, to meet its group")
        self.finish(second)
        self.finish(server)
        self.require_calm_weights([*RUN, "--train-steps", "3000"])

    def test_another_program_on_one_host_is_refused(self):
        other = self.folder / "other"
        shutil.copy(PROGRAM, other)
        with other.open("ab") as file:
            file.write(b"x")
        self.hosts.prepare("h3", f"mount --bind {other} {PROGRAM}")
        for rule in ([], ["--sync", "async", "--server-tasks", "1"]):
            _, errors = self.finish(self.start_training(*SHORT, *rule), code=2)
            self.assertRegex(errors, r"cohort: worker 0: h3 has another cohort \(\S+, \w+\) than h1 \(\S+, \w+\): give all hosts "
                                     "the same program\n")
            self.assertFalse(self.job.exists())


class Doctor(HostsTest):
    def examine(self, *arguments, code=0, hosts=None, slots=1):
        """What the doctor of all hosts says: the lines of the table and what follows, and the findings."""
        output, errors = self.finish(self.launch(self.hosts.mpirun(hosts or self.hosts.names, PROGRAM, "doctor", *arguments,
                                                                   slots=slots)), code=code)
        self.assertEqual([line for line in errors.splitlines() if line.startswith("cohort: ")], [])
        lines = output.splitlines()
        findings = [line for line in lines if line.startswith(("wrong: ", "poor: "))]
        return output, findings

    def test_good_ground(self):
        self.job.mkdir()
        output, findings = self.examine("--job-dir", self.job, "--", "train", *SHORT)
        self.assertEqual(findings, [])
        self.assertRegex(output, r"^3 hosts, 3 processes; cohort \S+, [0-9a-f]{8}; (avx2|avx512)\n")
        for name in self.hosts.names:
            self.assertRegex(output, rf"\n  {name}    1          {re.escape(self.hosts.address(name))} \(eth0\) ")
        self.assertRegex(output, r"\n  h2    eth0, \S+ [MG]B/s, \S+ ms +eth0, ")
        self.assertRegex(output, "is the same folder for all; a worker of the planned run needs about ")
        self.assertTrue(output.endswith("\nnothing wrong was found\n"), output)
        self.assertEqual(list(self.job.iterdir()), [])

    def test_a_slow_cable(self):
        self.hosts.slow_down("h3", "40mbit")
        output, findings = self.examine(code=6)
        self.assertEqual(len(findings), 1, output)
        found = re.fullmatch(r"poor: between h1 and h3, h2 and h3 there are only (\S+) MB/s: .*", findings[0])
        self.assertTrue(found, findings)
        # 40 megabits are 5 megabytes, some of which are headers.
        self.assertGreater(float(found[1]), 2.5)
        self.assertLess(float(found[1]), 6)
        self.finish(self.start_training(*SHORT))
        self.require_calm_weights(SHORT)

    def test_a_wrong_clock(self):
        if not Path(FAKETIME).exists():
            self.fail("the package faketime is missing (scripts/packages-test.txt)")
        self.hosts.prepare("h3", f"export LD_PRELOAD={FAKETIME} FAKETIME=-1h FAKETIME_DONT_FAKE_MONOTONIC=1")
        _, findings = self.examine(code=6)
        self.assertEqual(len(findings), 1, findings)
        self.assertRegex(findings[0], r"^poor: the clock of h3 is 3(600|599) s behind that of h1: set it \(chrony, ntpd\)")
        # A run begins all the same, and says so.
        _, errors = self.finish(self.start_training(*SHORT))
        self.assertRegex(errors, r"^warning: the clock of h3 is 3(600|599) s behind that of h1: ")

    def test_another_program(self):
        other = self.folder / "other"
        shutil.copy(PROGRAM, other)
        with other.open("ab") as file:
            file.write(b"x")
        self.hosts.prepare("h2", f"mount --bind {other} {PROGRAM}")
        _, findings = self.examine(code=6)
        self.assertEqual(len(findings), 1, findings)
        self.assertRegex(findings[0], "^wrong: h2 has another cohort ")

    def test_a_folder_that_one_host_cannot_write_in(self):
        self.job.mkdir()
        self.hosts.prepare("h2", f"mount --bind {self.job} {self.job} && mount -o remount,bind,ro {self.job}")
        _, findings = self.examine("--job-dir", self.job, code=6)
        self.assertEqual(findings, [f"wrong: h2 cannot write in {self.job} (Read-only file system): mount it there so that it "
                                    "can, or give another --job-dir"])

    def test_a_folder_that_is_another_on_one_host(self):
        self.job.mkdir()
        self.hosts.prepare("h3", f"mount -t tmpfs none {self.job}")
        _, findings = self.examine("--job-dir", self.job, code=6)
        self.assertIn(f"wrong: h3 does not see in {self.job} what h1 writes there: give a --job-dir that all hosts share",
                      findings)

    def test_a_name_that_others_do_not_know(self):
        known = self.hosts.hosts_file.read_text().splitlines(keepends=True)
        self.hosts.hosts_file.write_text("".join(line for line in known if not line.endswith(" h3\n")))
        _, findings = self.examine(code=6)
        self.assertEqual(len(findings), 1, findings)
        self.assertRegex(findings[0], "^poor: h1, h2 do not know the name h3: ")

    def test_a_port_of_a_server_that_is_taken(self):
        taker = self.launch(self.hosts.on("h1", "python3", "-c", shlex.quote(
            "import socket, time; s = socket.create_server(('', 7000)); print('ready', flush=True); time.sleep(100)")))
        self.assertEqual(taker.stdout.readline(), "ready\n")
        _, findings = self.examine("--", "train", *SHORT, "--sync", "async", "--server-port", "7000", code=6)
        self.assertEqual(findings, ["wrong: server 0 on h1 cannot listen at port 7000 (Address already in use): end what has it, "
                                    "or choose another"])

    def test_many_processes(self):
        output, findings = self.examine(slots=8, code=6)
        self.assertIn("3 hosts, 24 processes; ", output)
        self.assertRegex(findings[0], "^poor: 8 workers on h1 share ")


class NamedCluster(HostsTest):
    """Nobody has started these together; they find each other by their addresses."""

    def start(self, index, *arguments, workers="h[1-3]:2222"):
        host = self.hosts.names[index]
        return self.launch(self.hosts.on(host, PROGRAM, "doctor", "--worker-hosts", shlex.quote(workers), "--job-name", "worker",
                                         "--task-index", index, *arguments))

    def test_all_are_there(self):
        for process in [self.start(index, "--wait", "30s", "--job-dir", self.job) for index in range(3)]:
            output, errors = self.finish(process)
            self.assertRegex(output, r"^3 hosts, 3 processes; ")
            self.assertTrue(output.endswith("nothing wrong was found\n"), output)
            self.assertEqual(errors, "")
        self.assertFalse(self.job.exists())

    def test_one_is_not_there(self):
        for process in [self.start(index, "--wait", "3s") for index in range(2)]:
            output, _ = self.finish(process, code=6)
            self.assertIn("\nwrong: worker 2 at h3:2222 did not answer within 3 s (Connection refused): start cohort doctor "
                          "there too, or open the port\n", output)
            self.assertRegex(output, "^2 hosts, 2 processes; ")

    def test_one_is_cut_off(self):
        self.hosts.plug("h3", "down")
        processes = [self.start(index, "--wait", "3s") for index in range(3)]
        for process in processes[:2]:
            output, _ = self.finish(process, code=6)
            self.assertRegex(output, r"\nwrong: worker 2 at h3:2222 did not answer within 3 s \((No route to host|Connection "
                                     r"timed out)\): ")
        _, errors = self.finish(processes[2], code=4)
        self.assertRegex(errors, r"^cohort: worker 0 at h1:2222 did not answer within 3 s \(\w[^)]*\): start cohort doctor there "
                                 r"too, or open the port\n$")

    def test_a_port_that_is_taken(self):
        taker = self.launch(self.hosts.on("h2", "python3", "-c", shlex.quote(
            "import socket, time; s = socket.create_server(('', 2222)); print('ready', flush=True); time.sleep(100)")))
        self.assertEqual(taker.stdout.readline(), "ready\n")
        for process in [self.start(index, workers="h[1-2]:2222") for index in range(2)]:
            output, _ = self.finish(process, code=6)
            self.assertIn("\nwrong: worker 1 on h2 cannot listen at port 2222 (Address already in use): end what has it, or "
                          "choose another\n", output)


if __name__ == "__main__":
    main()
