#!/usr/bin/env python3
"""cluster_test.py PROGRAM [unittest options]: what the program understands of invented environments."""

import json
import os
import subprocess
import unittest

from program import LIMIT, PROGRAM, ProgramTest

LAUNCHERS = ("SLURM", "OMPI_", "PMI", "TF_CONFIG")

BATCH = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "2(x3)",
         "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
CLUSTER = {"chief": ["a:2222"], "worker": ["b:2222"], "ps": ["p:2222", "p:2223"]}


def step(rank, **changes):
    """Task `rank` of srun -N3 --ntasks-per-node=2 in that job."""
    return {**BATCH, "SLURM_STEP_ID": "4", "SLURM_STEP_NODELIST": "n[1-3]", "SLURM_STEP_NUM_TASKS": "6",
            "SLURM_STEP_TASKS_PER_NODE": "2(x3)", "SLURM_PROCID": str(rank), "SLURM_NODEID": str(rank // 2),
            "SLURM_LOCALID": str(rank % 2), "SLURMD_NODENAME": f"n{rank // 2 + 1}", **changes}


def mpirun(rank, size, local_size):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % local_size), "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size)}


def tf_config(cluster, **task):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}


class ClusterTest(ProgramTest):
    def show(self, *arguments, environment=None, code=0):
        """With this and nothing else of a launcher: the tests may themselves run in a job."""
        own = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}
        return self.run_program("cluster", "show", *arguments, code=code, env={**own, **(environment or {})})

    def table(self, *arguments, environment=None):
        """The lines between the launcher's and this process's own, and these two."""
        first, _, *members, own = self.show(*arguments, environment=environment).stdout.splitlines()
        return first, members, own

    def expect_refusal(self, sentence, *arguments, environment=None):
        done = self.show(*arguments, environment=environment, code=2)
        self.assertIn(sentence, done.stderr)
        self.assertRegex(done.stderr, r"^cohort: [^\n]*\n$", "one sentence")
        self.assertEqual(done.stdout, "")


class Show(ClusterTest):
    def test_one_machine(self):
        host = os.uname().nodename
        first, members, own = self.table()
        self.assertEqual(first, "one machine: no launcher has started this process")
        self.assertEqual([line.split() for line in members], [["*", "worker", "0", host, "0"]])
        self.assertRegex(own, rf"^worker 0: on {host}, \d+ of its \d+ cores \([\d,-]+\)$")

    def test_cores_are_those_that_this_process_may_use(self):
        core = min(os.sched_getaffinity(0))
        done = subprocess.run([PROGRAM, "cluster", "show"], capture_output=True, text=True, timeout=LIMIT, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.assertRegex(done.stdout, rf"1 of its \d+ cores \({core}\)\n$")

    def test_a_slurm_step(self):
        first, members, own = self.table(environment=step(0, SLURM_CPUS_PER_TASK="4", SLURM_RESTART_COUNT="2"))
        self.assertEqual(first, "SLURM job 17, step 4: 6 workers on n[1-3], --cpus-per-task 4; queued again 2 times")
        self.assertEqual(members, ["* worker 0  0     n1    0", *(f"  worker {rank}  {rank}     n{rank // 2 + 1}    {rank % 2}"
                                                               for rank in range(1, 6))])
        self.assertRegex(own, "^rank 0, worker 0: on ")

    def test_servers_of_a_slurm_step(self):
        first, members, _ = self.table("--sync", "async", environment=step(0))
        self.assertEqual(first, "SLURM job 17, step 4: 4 workers, 2 servers on n[1-3]")
        self.assertEqual(members[0], "* server 0  0     n1    0")
        first, members, _ = self.table("--sync", "async", "--server-port", "7000", environment=step(0))
        self.assertEqual(members[:3], ["* server 0  0     n1    0      n1:7000", "  server 1  1     n1    1      n1:7001",
                                       "  worker 0  2     n2    0"])
        for arguments in (["--server-tasks", "2,5"], ["--sync", "ssp", "--server-tasks", "2,5"]):
            first, members, _ = self.table(*arguments, "--server-port", "7000", environment=step(0))
            self.assertEqual([line.split()[-1] for line in members if "server" in line], ["n2:7000", "n3:7001"])
            self.assertIn("* worker 0", members[0])

    def test_groups(self):
        _, members, _ = self.table("--sync", "group", "--groups", "2", environment=step(0))
        self.assertEqual([line.split()[4] for line in members if "worker" in line], ["n2", "n2", "n3", "n3"])
        self.assertEqual([line.split()[3] for line in members if "worker" in line], ["0", "0", "1", "1"])
        place = ["--worker-hosts", "a:1,b:1,c:1", "--job-name", "worker", "--task-index", "0", "--sync", "group", "--groups"]
        self.assertIn("  worker 2  2      c", self.table(*place, "3")[1][2])
        self.expect_refusal("3 workers do not divide into 2 groups", *place, "2")

    def test_of_many_tasks_the_first_has_the_table(self):
        done = self.show("--sync", "async", environment=step(3))
        self.assertRegex(done.stdout, r"^rank 3, worker 1: on [^\n]*\n$")

    def test_a_slurm_job_without_a_step(self):
        first, members, _ = self.table(environment=BATCH)
        self.assertIn("in SLURM job 17 on n[1-3], but in no step of it", first)
        self.assertIn("srun --mpi=pmix", first)
        self.assertEqual(len(members), 1)

    def test_mpirun_on_one_host(self):
        first, members, own = self.table("--sync", "backup", environment=mpirun(0, 3, 3))
        self.assertEqual(first, "MPI: rank 0 of 3, all on this host; 2 workers, 1 server")
        self.assertRegex("\n".join(members), r"^\* server 0  0 .*\n  worker 0  1 .*\n  worker 1  2 .*$")
        self.assertIn("rank 0, server 0", own)

    def test_mpirun_on_several_hosts_tells_no_places(self):
        lines = self.show(environment=mpirun(0, 4, 2)).stdout.splitlines()
        self.assertIn("MPI: rank 0 of 4; mpirun does not tell on which hosts", lines[0])
        self.assertRegex(lines[1], "^rank 0, this process: on ")
        self.assertEqual(len(lines), 2)

    def test_without_servers_the_chief_serves(self):
        for workers, arguments in ((["a:1", "b:1"], []), (["a:1"], ["--sync", "ssp"])):
            first, _, _ = self.table(*arguments, environment=tf_config({"worker": workers}, type="worker", index=0))
            self.assertIn("; worker 0 serves too", first)

    def test_tf_config(self):
        first, members, own = self.table("--sync", "async", environment=tf_config(CLUSTER, type="worker", index=0))
        self.assertEqual(first, "TF_CONFIG: 2 workers, 2 servers")
        self.assertEqual(members, ["  server 0  p     0      p:2222", "  server 1  p     1      p:2223",
                                   "  worker 0  a     0      a:2222", "* worker 1  b     0      b:2222"])
        self.assertRegex(own, "^worker 1: on ")
        first, members, own = self.table(environment=tf_config(CLUSTER, type="evaluator", index=0))
        self.assertEqual(first, "TF_CONFIG: 2 workers, 2 servers, 1 evaluator")
        self.assertRegex(own, "^evaluator 0: on ")

    def test_flags_come_before_the_environment(self):
        environment = {**tf_config(CLUSTER, type="ps", index=1), **step(3)}
        first, members, _ = self.table("--ps_hosts=p:1", "--worker_hosts=n[1-2]:2", "--job_name=worker", "--task_index=1",
                                       environment=environment)
        self.assertEqual(first, "--ps-hosts and --worker-hosts: 2 workers, 1 server")
        self.assertEqual(members[2], "* worker 1  n2    0      n2:2")


class Singletons(ClusterTest):
    RUN = "--network mnist-fc --dataset synthetic --samples 40 --test-samples 8 --batch-size 8 --train-steps 1".split()

    def train(self, environment, code=0):
        own = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}
        return self.run_program("train", *self.RUN, "--job-dir", "job", code=code, env={**own, **environment})

    def test_tasks_that_would_each_train_alone_are_refused(self):
        for environment, launcher, fix in ((step(1), "srun has started 6 tasks", "give srun --mpi=pmix"),
                                           ({"PMI_SIZE": "4", "PMI_RANK": "1"}, "another MPI's mpirun", "use Open MPI's")):
            with self.subTest(launcher):
                refusal = self.train(environment, code=2).stderr
                self.assertRegex(refusal, rf"\Acohort: {launcher}.*; {fix}[^\n]*\n\Z")
                self.assertFalse((self.folder / "job").exists(), "nothing is begun")

    def test_one_task_and_a_batch_script_train(self):
        self.train(BATCH)
        self.train(step(0, SLURM_STEP_NUM_TASKS="1", SLURM_STEP_TASKS_PER_NODE="1", SLURM_STEP_NODELIST="n1"))


class Refusals(ClusterTest):
    def test_of_flags(self):
        hosts = ["--worker-hosts", "a:1,b:1", "--ps-hosts", "p:1"]
        for sentence, arguments in (
                ("give --job-name ps, worker or evaluator", hosts),
                ("give --task-index", [*hosts, "--job-name", "ps"]),
                ("--task-index 2 is not in --worker-hosts", [*hosts, "--job-name", "worker", "--task-index", "2"]),
                ("give --worker-hosts", ["--ps-hosts", "p:1", "--job-name", "ps", "--task-index", "0"]),
                ("--task-index", [*hosts, "--job-name", "worker", "--task-index", "one"]),
                ("'a' without a port", ["--worker-hosts", "a", "--job-name", "worker", "--task-index", "0"]),
                ("--server-tasks chooses among tasks", ["--server-tasks", "1"]),
                ("--server-tasks chooses among tasks", [*hosts, "--job-name", "ps", "--task-index", "0", "--server-tasks", "1"]),
                ("no synchronisation rule called 'quick'", ["--sync", "quick"]),
                ("--serve-tasks; did you mean --server-tasks?", ["--serve-tasks", "1"])):
            with self.subTest(arguments):
                self.expect_refusal(sentence, *arguments)

    def test_of_a_slurm_step(self):
        for sentence, arguments, environment in (
                ("rank 3 is task 1 of node 2 by SLURM_LOCALID and SLURM_NODEID", [], step(3, SLURM_NODEID="2")),
                ("by SLURMD_NODENAME", [], step(3, SLURMD_NODENAME="m1")),
                ("SLURM_STEP_NODELIST 'n[1-' is no host list", [], step(3, SLURM_STEP_NODELIST="n[1-")),
                ("SLURM_STEP_TASKS_PER_NODE is 'two'", [], step(3, SLURM_STEP_TASKS_PER_NODE="two")),
                ("SLURM_PROCID is ''", [], step(3, SLURM_PROCID="")),
                (r"SLURM_PROCID is '\x1b[2J'", [], step(3, SLURM_PROCID="\x1b[2J")),
                ("there is no rank 6", ["--server-tasks", "0,6"], step(3)),
                ("none is left to work", ["--server-tasks", "6"], step(3)),
                ("--sync local has no servers", ["--sync", "local", "--server-tasks", "1"], step(3))):
            with self.subTest(sentence):
                self.expect_refusal(sentence, *arguments, environment=environment)

    def test_of_tf_config(self):
        for sentence, text in (
                ("TF_CONFIG is no JSON from character 1 on", ""),
                ("TF_CONFIG is no JSON object", "[]"),
                ('TF_CONFIG has no "cluster"', "{}"),
                ('TF_CONFIG has no "task"', '{"cluster": {"worker": ["a:1"]}}'),
                ("did you mean 'worker'?", '{"cluster": {"workers": ["a:1"]}}'),
                ("without quotes", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}')):
            with self.subTest(text):
                self.expect_refusal(sentence, environment={"TF_CONFIG": text})

    def test_of_mpirun(self):
        self.expect_refusal("OMPI_COMM_WORLD_RANK is 4, and OMPI_COMM_WORLD_SIZE is 4", environment=mpirun(4, 4, 2))


if __name__ == "__main__":
    unittest.main()
