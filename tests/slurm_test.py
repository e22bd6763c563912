#!/usr/bin/env python3
"""slurm_test.py PROGRAM [unittest options]: runs on a real SLURM of three virtual nodes on this machine: by srun, and as jobs."""

import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

from program import LIMIT
from slurm_run import LONG, SHORT, SlurmTest, setUpModule, tearDownModule  # noqa: F401


def cores_of(process):
    """Of those of its threads that may use one core alone: lanes that compute."""
    found = set()
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        if lines["Cpus_allowed_list"].isdigit():
            found.add(int(lines["Cpus_allowed_list"]))
    return found


class Srun(SlurmTest):
    def places(self):
        """(host, lanes) of each worker."""
        return [(worker["host"], worker["lanes"]) for worker in self.summary()["workers"]]

    def test_three_nodes_of_two_tasks(self):
        self.srun(*SHORT)
        self.expect_weights(SHORT)
        self.assertEqual(self.places(), [(f"n{rank // 2 + 1}", 1) for rank in range(6)])
        self.assertEqual(len(list((self.job / "logs").glob("worker-*.txt"))), 6)

    def test_one_node_of_several_tasks(self):
        self.srun(*SHORT, nodes=1, tasks=2)
        self.expect_weights(SHORT)
        self.assertEqual(self.places(), [("n1", 1)] * 2)

    def test_one_task_per_node_uses_all_its_cores_as_lanes(self):
        self.srun(*SHORT, nodes=3, tasks=1)
        self.expect_weights(SHORT)
        self.assertEqual(self.places(), [("n1", 2), ("n2", 2), ("n3", 2)])

    def test_one_task_per_node_is_several_workers(self):
        self.srun(*SHORT, "--workers-per-task", "2", nodes=3, tasks=1)
        self.expect_weights(SHORT)
        self.assertEqual(self.places(), [(f"n{worker // 2 + 1}", 1) for worker in range(6)])

    def test_tasks_of_a_node_have_cores_of_their_own(self):
        self.start_srun(*LONG, "--train-steps", "100000")
        self.wait_for_checkpoint(20)
        tasks = self.tasks()
        self.assertEqual(sorted(tasks), list(range(6)))
        # The first lane is on its core while it computes only.
        cores = {rank: set() for rank in tasks}

        def all_were_seen():
            for rank, process in tasks.items():
                cores[rank] |= cores_of(process)
            return all(cores.values())
        self.wait_for(all_were_seen)
        for first in (0, 2, 4):
            self.assertEqual([len(cores[first]), len(cores[first + 1])], [1, 1], cores)
            self.assertNotEqual(cores[first], cores[first + 1])

    def test_a_short_grace_time_is_told_once(self):
        done = self.srun(*SHORT, env={**self.cluster.environment, "COHORT_GRACE_SECONDS": "0"})
        self.assertEqual(done.stderr.count("warning: to stop, this run needs about"), 1, done.stderr)
        self.assertNotIn("to stop, this run needs", self.srun(*SHORT, "--train-steps", "40", env={
            **self.cluster.environment, "COHORT_GRACE_SECONDS": "3600"}).stderr)

    def test_a_signal_stops_all_tasks_after_a_checkpoint(self):
        process = self.start_srun(*LONG)
        self.wait_for_checkpoint(40)
        # More than one: SLURM itself may tell tasks too.
        for _ in range(3):
            process.send_signal(signal.SIGUSR1)
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        self.assertIn("stopped by a signal", output)
        summary = self.summary()
        self.assertTrue(summary["interrupted"])
        self.assertEqual(summary["step"], self.newest())
        self.assertLess(summary["step"], 400)
        self.srun(*LONG, nodes=2, tasks=1)
        self.expect_weights(LONG)


class Center(SlurmTest):
    """Rules with servers: the tasks of the first node."""

    def ports(self):
        """Where the servers listen, by their logs."""
        logs = sorted((self.job / "logs").glob("server-*.txt"))
        return [int(re.search(r"listens at \S+:(\d+)", log.read_text()).group(1)) for log in logs]

    def test_the_first_node_serves_with_ports_of_its_own(self):
        self.srun(*SHORT, "--sync", "async")
        self.assertEqual(self.summary()["step"], 30)
        self.assertEqual(sorted(path.name for path in (self.job / "logs").iterdir()),
                         [*(f"server-{index}.txt" for index in range(2)), *(f"worker-{index}.txt" for index in range(4))])
        first, second = self.ports()
        self.assertNotEqual(first, second)

    def test_a_short_grace_time_is_told(self):
        done = self.srun(*SHORT, "--sync", "async", env={**self.cluster.environment, "COHORT_GRACE_SECONDS": "0"})
        self.assertEqual(done.stderr.count("warning: to stop, this run needs about"), 1, done.stderr)

    def test_bulk_synchronous_through_chosen_servers(self):
        self.srun(*SHORT, "--server-tasks", "1,4")
        self.expect_weights(SHORT)
        self.srun(*SHORT, "--train-steps", "40", "--servers", "1", nodes=2, tasks=1)
        self.expect_weights([*SHORT, "--train-steps", "40"])

    def test_one_task_per_node_is_several_workers(self):
        self.srun(*SHORT, "--sync", "easgd", "--avg-freq", "5", "--server-tasks", "1", "--workers-per-task", "2", nodes=3, tasks=1)
        center = self.summary()["center"]
        self.assertEqual((center["rule"], len(center["servers"])), ("easgd", 1))
        self.assertEqual(len(list((self.job / "logs").glob("worker-*.txt"))), 4)

    def test_one_group_over_nodes_is_bulk_synchronous(self):
        self.srun(*SHORT, "--sync", "group", "--groups", "1")
        self.expect_weights(SHORT)

    def test_a_killed_worker_of_a_group_comes_back(self):
        run = [*LONG, "--train-steps", "2000", "--lr", "0.01", "--checkpoint-every", "100", "--sync", "group", "--groups", "2"]
        process = self.start_srun(*run, "--server-tasks", "1,4")  # the second group's workers are on two nodes
        self.wait_for_checkpoint(200)
        before = self.workers()
        self.assertEqual(sorted(before), [0, 1, 2, 3])
        os.kill(before[3], signal.SIGKILL)
        self.wait_for(lambda: len(self.workers()) == 4 and not set(self.workers().values()) & {before[2], before[3]})
        self.assertEqual([self.workers()[0], self.workers()[1]], [before[0], before[1]], "the other group goes on")
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, r"worker 3 was ended by signal 9 \(Killed\) after step \d+; starting it again, to meet its group "
                                 r"\(workers 2 to 3\)")
        self.assertRegex(output, r"worker 2 failed after step \d+: worker 3 is gone: ")
        summary = self.summary()
        self.assertEqual((summary["step"], len(summary["center"]["members"])), (2000, 2))
        self.assertIn(f"weights {summary['weights_hash']}\n", self.run_program("replay", self.job).stdout)

    def test_groups_are_stopped_and_go_on_in_the_queue(self):
        number = self.submit([*LONG, "--train-steps", "4000", "--lr", "0.01", "--sync", "group", "--groups", "2"])
        self.wait_for_checkpoint(40)
        self.cluster.run("scancel", "--batch", "--signal=USR1", number)
        self.wait_for(lambda: self.cluster.job(number)["Restarts"] == "1")
        self.assertTrue(self.summary()["interrupted"])
        self.assertEqual(self.finish(number), 1)
        self.assertEqual((self.summary()["step"], self.summary()["interrupted"]), (4000, False))

    def test_a_job_that_is_stopped_goes_on_in_the_queue(self):
        number = self.submit([*LONG, "--servers", "2"])
        self.wait_for_checkpoint(40)
        self.cluster.run("scancel", "--batch", "--signal=USR1", number)
        self.wait_for(lambda: self.cluster.job(number)["Restarts"] == "1")
        self.assertTrue(self.summary()["interrupted"])
        self.assertEqual(self.finish(number), 1)
        self.expect_weights(LONG)


class Job(SlurmTest):
    """As `cohort slurm` makes them."""

    def test_is_shown_until_its_end(self):
        done = self.slurm("submit", "--nodes", "3", "--tasks-per-node", "2", "--time", "0:10:00", "--", "train", "--job-dir",
                          self.job, *SHORT)
        self.expect_weights(SHORT)
        self.assertRegex(done.stdout, r"submitted as job \d+\njob \d+: ")
        self.assertIn("step 30/30  loss", done.stdout)
        self.assertRegex(done.stdout, r"\njob \d+: COMPLETED on n\[1-3\]\n\Z")
        status = self.slurm("status", self.job).stdout
        self.assertRegex(status, r"^job \d+: COMPLETED on n\[1-3\]\nstep 30: loss [\d.]+, \d+ images/s\n$")

    def test_is_shown_on_a_terminal_as_one_line(self):
        live, shown = self.run_on_terminal("slurm", "submit", "--nodes", "2", "--", "train", "--job-dir", self.job, *SHORT,
                                           columns=100, environment=self.cluster.environment)
        self.assertTrue(any(line.startswith("step ") for line in live), live)
        self.assertFalse([line for line in shown if line.startswith("step 1")], shown)
        self.assertTrue([line for line in shown if "COMPLETED" in line], shown)

    def test_goes_on_when_nobody_looks_and_ends_when_cancelled(self):
        process = self.start_program("slurm", "submit", "--nodes", "3", "--tasks-per-node", "2", "--", "train", "--job-dir",
                                     self.job, *LONG, "--train-steps", "100000", stdout=subprocess.PIPE, text=True,
                                     env=self.cluster.environment)
        self.wait_for_checkpoint(20)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, r"job \d+ goes on; cohort slurm status .* tells how, cohort slurm cancel .* ends it\n\Z")
        number = (self.job / "slurm" / "job-id").read_text().strip()
        self.assertEqual(self.cluster.job(number)["JobState"], "RUNNING")
        refusal = self.slurm("submit", "--", "train", "--job-dir", self.job, *LONG, code=2).stderr
        self.assertIn(f"this run has a job already (job {number}: RUNNING on n[1-3])", refusal)
        self.assertIn("is cancelled", self.slurm("cancel", self.job).stdout)
        self.wait_for(lambda: self.cluster.job(number)["JobState"] == "CANCELLED")
        # Tasks that SLURM ends write a checkpoint too, and their code is no reason to queue a cancelled job again.
        self.assertIn("stopped by a signal", self.output(number))
        self.assertNotIn("back into the queue", self.output(number))
        self.assertEqual(self.cluster.job(number)["Restarts"], "0")

    def test_is_queued_again_by_slurm(self):
        number = self.submit(LONG)
        self.wait_for_checkpoint(40)
        self.cluster.run("scontrol", "requeue", number)
        self.cluster.wait_until_queued_again(number)
        self.assertEqual(self.finish(number), 1)
        self.expect_weights(LONG)
        self.assertRegex(self.output(number), r"resuming at step \d+")

    def test_a_signal_becomes_a_checkpoint_and_a_place_in_the_queue(self):
        number = self.submit(LONG)
        self.wait_for_checkpoint(40)
        self.cluster.run("scancel", "--batch", "--signal=USR1", number)
        self.cluster.wait_until_queued_again(number)
        stopped = self.summary()
        self.assertTrue(stopped["interrupted"])
        self.assertIn("stopped with code 75; the job goes back into the queue", self.output(number))
        self.assertEqual(self.finish(number), 1)
        self.assertIn(f"resuming at step {stopped['step']}\n", self.output(number))
        self.expect_weights(LONG)

    def test_a_time_limit_is_heard_in_time(self):
        # SLURM counts in minutes, and may send the signal up to one of them earlier.
        number = self.submit([*LONG, "--train-steps", "100000"], "--time", "1", "--grace", "50")
        self.cluster.wait_until_queued_again(number)
        self.assertIn("the job goes back into the queue", self.output(number))
        self.assertEqual(self.summary()["step"], self.newest())

    def test_a_killed_task_is_no_end(self):
        number = self.submit(LONG)
        self.wait_for_checkpoint(40)
        os.kill(self.tasks()[3], signal.SIGKILL)
        self.assertEqual(self.finish(number), 0)
        self.assertRegex(self.output(number), r"the tasks ended with code \d+; starting them again \(1 of 3\)")
        self.expect_weights(LONG)

    def test_options_of_sbatch_and_lines_of_shell_pass_through(self):
        (self.folder / "prologue").write_text("echo prologue on $(hostname)\nexport OMP_NUM_THREADS=1\n")
        number = self.submit(SHORT, "--sbatch", "nodelist=n2", "--sbatch=--comment='two words'", "--prologue", "prologue",
                             "--cpus-per-task", "2", nodes=1, tasks=1)
        self.finish(number)
        self.assertIn("prologue on n2\n", self.output(number))
        self.assertIn("Comment=two words", self.cluster.run("scontrol", "show", "job", number).stdout)
        self.assertEqual(self.cluster.job(number)["CPUs/Task"], "2")
        self.expect_weights(SHORT)

    def test_wrong_words_are_refused_before_anything_is_submitted(self):
        before = self.cluster.run("squeue", "-h", "-t", "all").stdout
        for words, sentence in (
                (["--nodes", "3", "--", "train", "--lerning-rate", "1"], "cohort train does not know --lerning-rate"),
                (["--nodes", "3", "--", "train", "--network", "nothing"], "there is no network called 'nothing'"),
                (["--nodes", "3", "--tasks-per-node", "3", "--", "train", *SHORT], "9 workers need a grain each"),
                (["--time", "long", "--", "train", *SHORT], "--time takes HOURS:MINUTES:SECONDS"),
                (["--nodes", "3"], "cohort slurm takes a run behind two dashes"),
                (["--nodes", "3", "--", "eval"], "cohort slurm takes a run behind two dashes")):
            with self.subTest(sentence):
                done = self.slurm("submit", *words, code=2)
                self.assertRegex(done.stderr, r"\Acohort: [^\n]*\n\Z", "one sentence")
                self.assertIn(sentence, done.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])
        self.assertIn("sbatch did not take", self.slurm("submit", "--sbatch", "partition=none", "--", "train", *SHORT,
                                                        code=3).stderr)
        self.assertIn("no job was submitted for", self.slurm("status", self.job, code=2).stderr)
        self.assertEqual(self.cluster.run("squeue", "-h", "-t", "all").stdout, before)

    def test_a_new_folder_is_named_as_train_does(self):
        done = self.slurm("write", "--nodes", "2", "--", "train", *SHORT)
        script = self.folder / done.stdout.split(":")[0]
        self.assertRegex(str(script.relative_to(self.folder)), r"^runs/mnist-fc-\d{8}-1/slurm/job.sh$")
        number = self.cluster.run("sbatch", "--parsable", script, cwd="/").stdout.strip()
        self.job = script.parent.parent
        self.finish(number)
        self.expect_weights(SHORT)


if __name__ == "__main__":
    unittest.main()
