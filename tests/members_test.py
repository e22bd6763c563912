#!/usr/bin/env python3
"""members_test.py PROGRAM [unittest options]: centers of several processes that nobody supervises as a whole: tasks of mpirun, and
members of a cluster that is named by flags or TF_CONFIG."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import unittest

from center_program import LONG, OWN_PACE, SMALL, Center
from program import LIMIT, PROGRAM

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
QUICK = [*SMALL, "--train-steps", "60", "--checkpoint-every", "20"]
# Two groups of two workers where four work.
GROUPS = [*OWN_PACE, "--sync", "group", "--groups", "2"]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


class Members(Center):
    quick_hash = None

    def quick(self):
        if Members.quick_hash is None:
            self.train(*QUICK, job=self.folder / "quick")
            Members.quick_hash = self.summary(self.folder / "quick")["weights_hash"]
        return Members.quick_hash

    def launch(self, *words, environment=None):
        process = subprocess.Popen(list(map(str, words)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**self.environment(), **(environment or {})})
        self.addCleanup(self.end, process)
        return process

    def log(self, name):
        path = self.job / "logs" / f"{name}.txt"
        return path.read_text() if path.exists() else ""

    def logs(self):
        return sorted(path.name for path in (self.job / "logs").iterdir())

    def require_whole(self, steps, members):
        """Every step is done, the last members are these groups, and the run is computed again to the bit."""
        summary = self.summary()
        self.assertEqual((summary["step"], summary["interrupted"]), (steps, False))
        self.assertEqual(len(summary["center"]["members"]), members)
        self.assertIn(f"weights {summary['weights_hash']}\n", self.run_program("replay", self.job).stdout)

    def kill_worker(self, number, process):
        """Of the second group of two: it comes back as a whole, and the first one is not disturbed."""
        self.reach(process, lambda: self.newest() >= 400 and len(self.workers()) == 4)
        before = self.workers()
        os.kill(before[number], signal.SIGKILL)
        self.reach(process, lambda: len(self.workers()) == 4 and not set(self.workers().values()) & {before[2], before[3]})
        after = self.workers()
        self.assertEqual((after[0], after[1]), (before[0], before[1]), "the other group goes on")


class Tasks(Members):
    """Of mpirun, on one host."""

    def mpirun(self, tasks, *arguments):
        return self.launch(*MPIRUN, "-np", tasks, PROGRAM, "train", "--job-dir", self.job, *arguments)

    def test_the_first_serves_and_the_bits_are_the_same(self):
        output, _ = self.finish(self.mpirun(3, *QUICK, "--servers", "1"))
        self.assertIn("test accuracy", output)
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", "worker-0.txt", "worker-1.txt"])
        for left in ("center.txt", "snapshots", "supervisor-worker-0"):
            self.assertFalse((self.job / left).exists(), left)

    def test_servers_that_are_chosen(self):
        self.finish(self.mpirun(4, *QUICK, "--server-tasks", "1,3"))
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", "server-1.txt", "worker-0.txt", "worker-1.txt"])

    def test_every_rule(self):
        for rule in (["async"], ["ssp", "--staleness", "2"], ["backup", "--backups", "1"]):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                output, _ = self.finish(self.mpirun(3, *QUICK, "--sync", *rule))
                self.assertEqual(self.summary()["step"], 60)
                self.assertEqual(output.count("test accuracy"), 1)

    def test_a_port_that_is_given(self):
        port = free_ports(1)[0]
        process = self.mpirun(2, *OWN_PACE, "--sync", "async", "--server-port", port, "--train-steps", "1000000")
        self.reach(process, lambda: self.newest() >= 200)
        self.assertRegex(self.run_program("status", f"127.0.0.1:{port}").stdout, r"\Aasync: step \d+ of 1000000, 1 member")
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=LIMIT)

    def test_one_task_is_a_center_of_its_own(self):
        output, _ = self.finish(self.mpirun(1, *QUICK, "--servers", "2"))
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", "server-1.txt", "worker-0.txt"])

    def test_several_workers_in_a_task(self):
        self.finish(self.mpirun(2, *QUICK, "--servers", "1", "--workers-per-task", "2"))
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", "worker-0.txt", "worker-1.txt"])
        shutil.rmtree(self.job)
        self.finish(self.mpirun(1, *QUICK, "--sync", "backup", "--workers-per-task", "3"))
        self.assertEqual(self.logs(), ["server-0.txt", "worker-0.txt", "worker-1.txt", "worker-2.txt"])

    def test_kills_of_workers_and_servers(self):
        process = self.mpirun(3, *LONG, "--servers", "1")
        for kill, step in ((lambda: self.workers().get(0), 100), (lambda: self.servers().get(0), 300),
                           (lambda: self.workers().get(1), 500)):
            self.reach(process, lambda step=step: self.newest() >= step)
            self.reach(process, lambda kill=kill: kill() is not None)
            os.kill(kill(), signal.SIGKILL)
        _, errors = self.finish(process)
        for name in ("worker 0", "server 0", "worker 1"):
            self.assertRegex(errors, rf"{name} was ended by signal 9 \(Killed\) after step \d+; (the others go on, )?starting it again")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_one_group_is_bulk_synchronous(self):
        self.finish(self.mpirun(4, *QUICK, "--sync", "group", "--groups", "1", "--server-tasks", "2-2"))
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", *(f"worker-{index}.txt" for index in range(3))])
        for index in range(3):
            self.assertIn(", own step ", self.log(f"worker-{index}"))

    def test_groups_in_tasks_of_several_workers(self):
        for tasks, each, groups in ((2, 4, 2), (3, 3, 3), (1, 4, 2)):
            with self.subTest(tasks=tasks, each=each, groups=groups):
                shutil.rmtree(self.job, ignore_errors=True)
                self.finish(self.mpirun(tasks, *QUICK, "--lr", "0.01", "--sync", "group", "--groups", groups,
                                        "--workers-per-task", each))
                self.require_whole(60, members=groups)

    def test_groups_of_one_worker(self):
        self.finish(self.mpirun(3, *QUICK, "--lr", "0.01", "--sync", "group", "--groups", "2"))
        self.require_whole(60, members=2)
        self.assertEqual(self.summary()["center"]["rule"], "async")

    def test_a_killed_worker_costs_its_group_alone(self):
        process = self.mpirun(5, *GROUPS)
        self.kill_worker(3, process)
        _, errors = self.finish(process)
        again = r"starting it again, to meet its group \(workers 2 to 3\)"
        self.assertRegex(errors, rf"worker 3 was ended by signal 9 \(Killed\) after step \d+; {again}")
        self.assertRegex(errors, rf"worker 2 failed after step \d+: worker 3 is gone: [^\n]*; {again}")
        self.assertEqual(errors.count("again"), 2, errors)
        self.require_whole(6000, members=2)

    def test_a_frozen_worker_is_found_by_its_own_supervisor(self):
        process = self.mpirun(5, *GROUPS)
        self.reach(process, lambda: self.newest() >= 400 and len(self.workers()) == 4)
        os.kill(self.workers()[2], signal.SIGSTOP)
        _, errors = self.finish(process)
        self.assertIn("worker 2 gave no sign of life for 3 s", errors)
        self.assertRegex(errors, r"worker 3 failed after step \d+: worker 2 is gone: ")
        self.require_whole(6000, members=2)

    def test_groups_with_weights_of_their_own_are_stopped_and_gone_on_with(self):
        run = [*GROUPS, "--between", "easgd", "--avg-freq", "4", "--alpha", "0.4"]
        process = self.mpirun(5, *run)
        self.reach(process, lambda: self.newest() >= 400)
        process.send_signal(signal.SIGUSR1)
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (self.newest(), True))
        self.finish(self.mpirun(3, *run))
        self.assertEqual(self.summary()["center"]["rule"], "easgd")
        self.require_whole(6000, members=2)

    def test_stopped_and_gone_on_with(self):
        process = self.mpirun(3, *LONG, "--servers", "1")
        self.reach(process, lambda: self.newest() >= 50)
        process.send_signal(signal.SIGUSR1)  # mpirun passes it on to all
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        self.assertTrue(self.summary()["interrupted"])
        self.assertEqual(self.summary()["step"], self.newest())
        self.finish(self.mpirun(4, *LONG, "--servers", "2"))
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_refusals(self):
        for sentence, tasks, arguments in (
                ("of 2 tasks none is left to work where 2 serve", 2, ["--server-tasks", "2"]),
                ("there is no rank 5", 3, ["--server-tasks", "5,1"]),
                ("3 workers do not divide into 2 groups of as many", 4, ["--sync", "group", "--groups", "2"]),
                ("--sync group needs the number of groups: --groups 1, 3 would do", 4, ["--sync", "group"]),
                ("--server-tasks 1 is 1 server, and --servers is 2", 3, ["--server-tasks", "1", "--servers", "2"])):
            with self.subTest(sentence):
                _, errors = self.finish(self.mpirun(tasks, *QUICK, *arguments), code=2)
                self.assertIn(sentence, errors)
                self.assertFalse(self.job.exists())
        done = self.run_program("train", *QUICK, "--server-tasks", "1", code=2)
        self.assertIn("--server-tasks is for tasks that srun or mpirun has started", done.stderr)


class NamedMembers(Members):
    """Processes that are told the same lists, and each its own place in them."""

    def hosts(self, servers, workers):
        ports = free_ports(servers + workers)
        address = [f"127.0.0.1:{port}" for port in ports]
        return address[:servers], address[servers:]

    def member(self, hosts, role, index, *arguments):
        servers, workers = hosts
        lists = ["--ps-hosts", ",".join(servers)] if servers else []
        return self.start(*lists, "--worker-hosts", ",".join(workers), "--job-name", role, "--task-index", index, *arguments)


class Named(NamedMembers):
    """Through a center."""

    def test_servers_and_workers(self):
        hosts = self.hosts(2, 2)
        members = [self.member(hosts, role, index, *QUICK) for role in ("ps", "worker") for index in (0, 1)]
        outputs = [self.finish(member)[0] for member in members]
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(sum("test accuracy" in output for output in outputs), 1)

    def test_without_servers_the_chief_serves(self):
        hosts = self.hosts(0, 2)
        members = [self.member(hosts, "worker", index, *QUICK) for index in (1, 0)]
        for member in members:
            self.finish(member)
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertEqual(self.logs(), ["server-0.txt", "worker-0.txt", "worker-1.txt"])

    def test_tf_config(self):
        servers, workers = self.hosts(1, 2)
        cluster = {"chief": workers[:1], "worker": workers[1:], "ps": servers}
        tasks = [("ps", 0), ("chief", 0), ("worker", 0), ("evaluator", 0)]
        members = [self.launch(PROGRAM, "train", "--job-dir", self.job, *QUICK, "--sync", "async", environment={
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}) for kind, index in tasks]
        outputs = [self.finish(member)[0] for member in members]
        self.assertEqual(self.summary()["step"], 60)
        self.assertRegex(outputs[3], r"(?m)^step 60: test loss [\d.]+, accuracy [\d.]+, top-5 [\d.]+$")
        last = json.loads((self.job / "evaluator.jsonl").read_text().splitlines()[-1])
        self.assertEqual((last["step"], last["weights_hash"]), (60, self.summary()["weights_hash"]))

    def test_a_cluster_of_one_is_plain_training(self):
        cluster = {"worker": ["127.0.0.1:1"]}
        self.finish(self.launch(PROGRAM, "train", "--job-dir", self.job, *QUICK, environment={
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}))
        self.assertEqual(self.summary()["weights_hash"], self.quick())
        self.assertFalse((self.job / "logs" / "server-0.txt").exists())

    def test_a_worker_leaves_and_another_comes_back(self):
        hosts = self.hosts(1, 2)
        server = self.member(hosts, "ps", 0, *LONG)
        first, second = (self.member(hosts, "worker", index, *LONG) for index in (0, 1))
        self.reach(first, lambda: "own step" in self.log("worker-1") and self.newest() >= 50)
        second.send_signal(signal.SIGTERM)
        output, _ = self.finish(second, code=75)
        self.assertIn("left the run, which goes on", output)
        first.kill()
        first.communicate()
        first = self.member(hosts, "worker", 0, *LONG)
        self.finish(first)
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_worker_that_comes_back_when_the_run_is_over(self):
        run = [*OWN_PACE, "--sync", "async", "--recovery-wait", "10s"]
        hosts = self.hosts(1, 2)
        server = self.member(hosts, "ps", 0, *run)
        first, second = (self.member(hosts, "worker", index, *run) for index in (0, 1))
        self.reach(first, lambda: "own step" in self.log("worker-1") and self.newest() >= 200)
        second.send_signal(signal.SIGSTOP)  # so that it starts its worker again only when all others have gone
        os.kill(self.workers()[1], signal.SIGKILL)
        self.finish(first)
        self.finish(server)
        second.send_signal(signal.SIGCONT)
        _, errors = self.finish(second)
        self.assertRegex(errors, r"worker 1 was ended by signal 9 \(Killed\) after step \d+; the others go on, starting it again")
        self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (6000, False))

    def test_a_server_stops_the_run(self):
        hosts = self.hosts(1, 1)
        server, worker = self.member(hosts, "ps", 0, *LONG), self.member(hosts, "worker", 0, *LONG)
        self.reach(worker, lambda: self.newest() >= 50)
        server.send_signal(signal.SIGTERM)
        self.finish(worker, code=75)
        self.finish(server, code=75)
        self.assertEqual(self.summary()["step"], self.newest())

    def test_a_killed_server_is_started_again(self):
        hosts = self.hosts(1, 1)
        server, worker = self.member(hosts, "ps", 0, *LONG), self.member(hosts, "worker", 0, *LONG)
        self.reach(worker, lambda: self.newest() >= 100)
        server.kill()  # with all that it has started
        server.communicate()
        server = self.member(hosts, "ps", 0, *LONG)
        self.finish(worker)
        self.finish(server)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_refusals(self):
        place = ["--worker-hosts", "a:1,b:1", "--job-name", "worker", "--task-index", "0"]
        for sentence, arguments in (
                ("give --job-dir, the same for all", place),
                ("--sync local has no servers", [*place, "--ps-hosts", "p:1", "--job-dir", "job", "--sync", "local"]),
                ("--parallel has no servers", [*place, "--ps-hosts", "p:1", "--job-dir", "job", "--parallel", "model"]),
                ("--server-tasks is for tasks", [*place, "--job-dir", "job", "--server-tasks", "1"]),
                ("both say who the others are", [*place, "--job-dir", "job", "--join", "127.0.0.1:1"])):
            with self.subTest(sentence):
                done = self.run_program("train", *QUICK, *arguments, code=2)
                self.assertIn(sentence, done.stderr)
                self.assertRegex(done.stderr, r"^cohort: [^\n]*\n$", "one sentence")

    def test_credentials_that_nobody_makes(self):
        place = ["--ps-hosts", "192.0.2.1:7", "--worker-hosts", "192.0.2.2:7", "--job-name", "worker", "--task-index", "0"]
        done = self.run_program("train", "--job-dir", self.job, *QUICK, *place, "--recovery-wait", "1s", code=2)
        self.assertIn("the first process makes it in its job directory", done.stderr)


class NamedGroups(NamedMembers):
    """Of workers that are told their places one by one."""

    def test_one_group_is_bulk_synchronous_where_its_first_worker_serves(self):
        hosts = self.hosts(0, 3)
        members = [self.member(hosts, "worker", index, *QUICK, "--sync", "group", "--groups", "1") for index in (2, 0, 1)]
        for member in members:
            self.finish(member)
        self.assertEqual(self.summary()["weights_hash"], self.quick())

    def test_a_killed_worker_costs_its_group_alone(self):
        self.run_program("credentials", "secret.pem")  # as between hosts
        hosts = self.hosts(1, 4)
        members = [self.member(hosts, role, index, *GROUPS, "--credentials", "secret.pem")
                   for role, index in (("ps", 0), *(("worker", index) for index in range(4)))]
        self.kill_worker(2, members[0])
        errors = [self.finish(member)[1] for member in members]
        self.assertIn("worker 2 was ended by signal 9 (Killed)", errors[3])
        self.assertIn("worker 2 is gone", errors[4])
        self.assertEqual(errors[:3], ["", "", ""])
        self.require_whole(6000, members=2)

    def test_a_worker_that_leaves_is_waited_for_by_its_group(self):
        hosts = self.hosts(1, 4)
        words = [*GROUPS, "--train-steps", "1000000"]
        server = self.member(hosts, "ps", 0, *words)
        workers = [self.member(hosts, "worker", index, *words) for index in range(4)]
        self.reach(server, lambda: self.newest() >= 400 and ", own step " in self.log("worker-3"))
        for leaving in (3, 2):
            before = self.workers()
            workers[leaving].send_signal(signal.SIGTERM)
            output, _ = self.finish(workers[leaving], code=75)
            self.assertIn("left the run, which goes on", output)
            self.reach(server, lambda before=before, other=5 - leaving: self.workers().get(other) not in (None, before[other]))
            workers[leaving] = self.member(hosts, "worker", leaving, *words)
            own_steps = self.log("worker-3").count("own step 1:")
            self.reach(server, lambda own_steps=own_steps: self.log("worker-3").count("own step 1:") > own_steps)
        server.send_signal(signal.SIGTERM)
        for member in (server, *workers):
            self.finish(member, code=75)
        self.assertEqual(len(self.summary()["center"]["members"]), 2)

    def test_a_worker_that_never_comes_is_named(self):
        hosts = self.hosts(1, 2)
        words = [*QUICK, "--sync", "group", "--groups", "1", "--recovery-wait", "1s", "--max-restarts", "1"]
        server, worker = self.member(hosts, "ps", 0, *words), self.member(hosts, "worker", 0, *words)
        _, errors = self.finish(worker, code=4)
        self.assertRegex(errors, rf"worker 1 at {hosts[1][1]} did not answer \([^\n]*\) within 1 s; start it there too")
        self.assertIn("given up after 1 restarts without a step (--max-restarts)", errors)
        server.kill()


class Mesh(NamedMembers):
    """Rules without a center: the workers of a named cluster are connected with each other."""

    def mpi(self, *arguments):
        self.train(*arguments, "--workers", "2", job=self.folder / "mpi")
        return self.summary(self.folder / "mpi")["weights_hash"]

    def test_rules_and_divisions(self):
        for more in (["--sync", "local", "--avg-freq", "5"], ["--sync", "diloco", "--inner-steps", "10"], ["--parallel", "model"]):
            with self.subTest(more):
                for job in (self.job, self.folder / "mpi"):
                    shutil.rmtree(job, ignore_errors=True)
                expected = self.mpi(*QUICK, *more)
                hosts = self.hosts(0, 2)
                members = [self.member(hosts, "worker", index, *QUICK, *more) for index in (1, 0)]
                outputs = [self.finish(member)[0] for member in members]
                self.assertEqual(self.summary()["weights_hash"], expected)
                self.assertEqual([output.count("test accuracy") for output in outputs], [0, 1])

    def test_a_killed_worker_is_waited_for(self):
        run = [*LONG, "--parallel", "model"]
        expected = self.mpi(*run)
        self.run_program("credentials", "secret.pem")
        hosts = self.hosts(0, 2)
        words = [*run, "--credentials", "secret.pem"]
        first, second = (self.member(hosts, "worker", index, *words) for index in (0, 1))
        self.reach(first, lambda: self.newest() >= 100)
        second.kill()
        second.communicate()
        second = self.member(hosts, "worker", 1, *words)
        self.reach(first, lambda: self.newest() >= 500)
        first.kill()
        first.communicate()
        first = self.member(hosts, "worker", 0, *words)
        _, errors = self.finish(second)
        self.assertRegex(errors, r"worker 0 is gone: [^\n]*; meeting the others again, to go on from the checkpoint of step \d+")
        self.finish(first)
        self.assertEqual(self.summary()["weights_hash"], expected)

    def test_stopped_and_gone_on_with(self):
        run = [*LONG, "--parallel", "model"]
        hosts = self.hosts(0, 2)
        members = [self.member(hosts, "worker", index, *run) for index in (0, 1)]
        self.reach(members[0], lambda: self.newest() >= 50)
        members[1].send_signal(signal.SIGTERM)
        for member in members:
            self.finish(member, code=75)
        self.assertEqual(self.summary()["step"], self.newest())

    def test_strangers(self):
        for name in ("secret.pem", "other.pem"):
            self.run_program("credentials", name)
        hosts = self.hosts(0, 2)
        words = [*QUICK, "--sync", "local", "--recovery-wait", "3s", "--max-restarts", "0"]
        members = [self.member(hosts, "worker", index, *words, "--credentials", name)
                   for index, name in enumerate(("secret.pem", "other.pem"))]
        for member in members:
            _, errors = self.finish(member, code=4)
            self.assertRegex(errors, "did not come within|did not answer|does not prove that it belongs to the run|"
                                     "closed its connection")


if __name__ == "__main__":
    unittest.main()
