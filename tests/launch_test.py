#!/usr/bin/env python3
"""launch_test.py PROGRAM [unittest options]: runs on the hosts of a file, over a real ssh server and over a script instead of it."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from program import LIMIT, PROGRAM, ProgramTest, is_alive, long, main
from ssh_server import SshServer, free_port
from training_run import SMALL

MEMBER = Path(__file__).resolve().parent / "launch_member.py"
HOSTS = "127.0.0.1:7101 ps\n127.0.0.2:7101 worker cores=0\n127.0.0.[2-3]:7102 worker\n127.0.0.1 evaluator\n"
NAMES = ("ps-0", "worker-0", "worker-1", "worker-2", "evaluator-0")
RUN = "--network mnist-fc --dataset synthetic --batch-size 8 --sync async".split()


class LaunchTest(ProgramTest):
    ssh = None

    def setUp(self):
        super().setUp()
        self.job = self.folder / "job"
        (self.folder / "hosts").write_text(HOSTS)
        self.environment = {**os.environ, "COHORT_REAL": PROGRAM, "COHORT_ODD": "it's $HOME"}

    def words(self, *more):
        return ["launch", "--hosts", "hosts", "--remote-program", MEMBER, "--ssh", self.ssh, *more, "--", "train", *RUN,
                "--job-dir", self.job]

    def launch(self, *more):
        return self.start_program(*self.words(*more), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)

    def told(self, name, start=0):
        return json.loads((self.job / f"members/{name}.{start}.json").read_text())

    def started(self, name, start=0):
        self.wait_for((self.job / f"members/{name}.{start}.json").exists)
        return self.told(name, start)["pid"]

    def all_started(self):
        return {name: self.started(name) for name in NAMES}

    def expect_gone(self, processes):
        self.wait_for(lambda: not any(map(is_alive, processes)), limit=20)

    def expect_end(self, process, code):
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, f"{out}\n{err}")
        return out, err

    def log(self, name):
        return (self.job / f"logs/launch-{name}.txt").read_text()


class Members:
    """Over whatever `ssh` is."""

    def test_all_start_and_end_with_the_run(self):
        process = self.launch()
        members = self.all_started()
        place = ["--ps-hosts", "127.0.0.1:7101", "--worker-hosts", "127.0.0.2:7101,127.0.0.2:7102,127.0.0.3:7102"]
        train = ["train", *RUN, "--job-dir", str(self.job), *place]
        for name, own in (("ps-0", ["ps", "--task-index", "0"]), ("evaluator-0", ["evaluator", "--task-index", "0"]),
                          ("worker-0", ["worker", "--task-index", "0", "--devices-visible", "0"]),
                          ("worker-2", ["worker", "--task-index", "2"])):
            told = self.told(name)
            self.assertEqual(told["words"], [*train, "--job-name", *own])
            self.assertEqual(told["cwd"], str(self.folder))
            self.assertEqual(told["odd"], "it's $HOME", "variables come as they were")
        (self.job / "finish").touch()
        out, err = self.expect_end(process, 0)
        self.assertRegex(out, r"starting 1 server, 3 workers, 1 evaluator; what they print is in .*job/logs\n")
        self.assertRegex(out, r"(?s)worker-0 starts\n.*worker-0 is done\n")
        self.assertIn("worker-2 is done\n", out, "any worker may be the chief")
        self.assertNotRegex(out, "ps-0|evaluator-0", "the others' output is in their logs")
        self.assertEqual(err, "")
        self.assertEqual(self.log("worker-1"), "worker-1 starts\nworker-1 is done\n")
        self.assertEqual(self.log("server-0"), "ps-0 starts\nps-0 is done\n")
        self.expect_gone(members.values())

    def test_a_stop_reaches_the_one_that_has_a_checkpoint_written(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(number.name):
                process = self.launch()
                members = self.all_started()
                process.send_signal(number)
                out, err = self.expect_end(process, 75)
                self.assertTrue(out.endswith("has stopped\nstopped after a checkpoint; the same command goes on\n"), out)
                self.assertEqual(err, "")
                self.expect_gone(members.values())
                for file in (self.job / "stopped", *(self.job / "members").iterdir()):
                    file.unlink()

    def test_nothing_outlives_a_killed_launcher(self):
        process = self.launch()
        members = self.all_started()
        attendants = [self.told(name)["parent"] for name in NAMES]
        process.kill()
        self.expect_gone([*members.values(), *attendants])
        self.assertFalse((self.job / "stopped").exists(), "nobody was asked")

    def test_a_second_signal_ends_everything_at_once(self):
        process = self.launch()
        members = self.all_started()
        os.kill(members["ps-0"], signal.SIGSTOP)  # it will not hear the first
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        self.expect_end(process, 143)
        self.expect_gone(members.values())

    def test_a_member_that_dies_is_started_again_alone(self):
        process = self.launch()
        members = self.all_started()
        for name in ("worker-1", "ps-0", "worker-0"):
            (self.job / "metrics.jsonl").write_text(f"{name}\n")
            os.kill(members[name], signal.SIGKILL)
            again = self.started(name, 1)
            self.assertNotEqual(again, members[name])
        (self.job / "finish").touch()
        out, err = self.expect_end(process, 0)
        self.assertEqual(len(list((self.job / "members").glob("*.json"))), len(NAMES) + 3, "the others went on")
        self.assertIn("warning: worker 1 on 127.0.0.2 was ended by signal 9 (Killed): worker-1 starts; starting it again\n", err)
        self.assertIn("warning: server 0 on 127.0.0.1 was ended by signal 9", err)
        self.assertRegex(out, r"(?s)worker-0 starts\n.*worker-0 starts\n.*worker-0 is done\n")

    def test_one_worker_that_leaves_does_not_end_the_run(self):
        process = self.launch()
        members = self.all_started()
        (self.job / "fail-worker-1").write_text("75")
        self.expect_gone([members["worker-1"]])
        time.sleep(1)
        self.assertTrue(all(is_alive(members[name]) for name in NAMES if name != "worker-1"))
        (self.job / "finish").touch()
        self.expect_end(process, 0)
        self.assertEqual(len(list((self.job / "members").glob("*.json"))), len(NAMES), "it was not started again")

    def test_a_run_that_was_stopped_elsewhere_is_stopped(self):
        process = self.launch()
        members = self.all_started()
        os.kill(members["ps-0"], signal.SIGTERM)
        self.expect_end(process, 75)
        self.expect_gone(members.values())

    def test_a_lost_connection_ends_its_member_which_is_started_again(self):
        process = self.launch()
        members = self.all_started()
        (self.job / "metrics.jsonl").write_text("a step\n")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        lost = [int(child) for child in children
                if b"--job-name worker --task-index 2" in Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")]
        self.assertEqual(len(lost), 1, children)
        os.kill(lost[0], signal.SIGKILL)
        self.expect_gone([members["worker-2"]])
        self.started("worker-2", 1)
        (self.job / "finish").touch()
        self.expect_end(process, 0)

    def test_is_given_up_when_starting_again_is_of_no_use(self):
        process = self.launch("--max-restarts", "1")
        members = self.all_started()
        (self.job / "metrics.jsonl").write_text("a step\n")
        (self.job / "fail-worker-1").write_text("1")
        _, err = self.expect_end(process, 4)
        self.assertIn("worker 1 on 127.0.0.2 ended with code 1: cohort: worker-1 cannot go on; starting it again\n", err)
        self.assertRegex(err, r"cohort: worker 1 on .*; given up after 1 restarts between which the run got nowhere "
                              r"\(--max-restarts\)\n\Z")
        self.expect_gone(members.values())

    def test_what_is_wrong_from_the_beginning_is_told_at_once(self):
        self.job.mkdir()
        for code, sentence in ((2, "worker 1 on 127.0.0.2 ended with code 2: cohort: worker-1 cannot go on"),
                               (3, r"worker 1 on .* ended with code 3: cohort: worker-1 cannot go on; see .*logs/launch-worker-1.txt"),
                               (4, r"worker 1 on .* ended with code 4: .*; see")):
            (self.job / "fail-worker-1").write_text(str(code))
            done = self.run_program(*self.words(), code=code, env=self.environment)
            self.assertRegex(done.stderr, rf"\Acohort: {sentence}[^\n]*\n\Z")
        starts = [self.told(file.name.split(".")[0], int(file.name.split(".")[1]))["pid"]
                  for file in (self.job / "members").glob("*.json")]
        self.expect_gone(starts)

    def test_a_program_that_is_not_on_the_hosts(self):
        words = self.words()
        words[words.index(MEMBER)] = "/no/such/program"
        done = self.run_program(*words, code=4, env=self.environment)
        self.assertRegex(done.stderr, r"\Acohort: \w+ \d on 127[.\d]+ ended with code 12[67]: .*/no/such/program.*\n\Z")

    def test_two_launches_of_one_run_are_refused(self):
        process = self.launch()
        self.all_started()
        refused = self.run_program(*self.words(), code=2, env=self.environment).stderr
        self.assertIn("another cohort launch runs in ", refused)
        (self.job / "finish").touch()
        self.expect_end(process, 0)

    def test_without_servers_the_first_worker_is_asked_to_stop(self):
        (self.folder / "hosts").write_text("127.0.0.1:7101 worker\n127.0.0.2:7101 worker\n")
        process = self.launch()
        for name in ("worker-0", "worker-1"):
            self.started(name)
        process.terminate()
        self.expect_end(process, 75)


class OverAScript(Members, LaunchTest):
    def setUp(self):
        super().setUp()
        script = self.folder / "script"
        script.write_text('#!/bin/sh\necho "$1" >>"$0.hosts"\nshift\nexec sh -c "$*"\n')
        script.chmod(0o755)
        self.ssh = str(script)

    def test_the_script_is_given_each_host(self):
        process = self.launch()
        self.all_started()
        (self.job / "finish").touch()
        self.expect_end(process, 0)
        self.assertEqual(sorted((self.folder / "script.hosts").read_text().split()),
                         ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.3"])


class SshTest(LaunchTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="cohort-test-")
        cls.addClassCleanup(scratch.cleanup)
        server = SshServer(Path(scratch.name), Path(PROGRAM).parent)
        cls.addClassCleanup(server.end)
        cls.ssh = server.client


@long
class OverSsh(Members, SshTest):
    def test_a_host_that_is_not_reached(self):
        (self.folder / "hosts").write_text("127.0.0.1:7101 worker\n127.0.0.77:7101 worker\n")
        done = self.run_program(*self.words(), code=4, env=self.environment)
        self.assertRegex(done.stderr, r"\Acohort: worker 1 on 127\.0\.0\.77 was not reached or lost \(ssh ended with code 255\): "
                                      r"ssh: connect to host 127\.0\.0\.77 port \d+: Connection refused; see ")


class Training(SshTest):
    """What is launched is cohort itself: a server, two workers and an evaluator, each at an address of its own."""

    RUN = [*SMALL, "--threads", "1", "--checkpoint-every", "20", "--log-every", "5"]

    def setUp(self):
        super().setUp()
        port = free_port()
        (self.folder / "hosts").write_text(f"127.0.0.1:{port} ps\n127.0.0.[2-3]:{port} worker\n127.0.0.1 evaluator\n")

    def train(self, steps):
        return self.start_program("launch", "--hosts", "hosts", "--ssh", self.ssh, "--", "train", *self.RUN, "--train-steps", steps,
                                  "--job-dir", self.job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_equals_one_worker_though_it_was_stopped_and_members_died(self):
        steps = 400
        self.run_program("train", *self.RUN, "--train-steps", steps, "--job-dir", "alone")
        process = self.train(steps)
        checkpoints = self.job / "checkpoints"
        self.wait_for(lambda: any(checkpoints.glob("*.safetensors")) or process.poll() is not None)
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
            if b"--job-name worker --task-index 1" in words:
                os.kill(int(child), signal.SIGKILL)  # the connection of a worker
        time.sleep(1)
        process.terminate()
        out, err = self.expect_end(process, 75)
        self.assertIn("starting it again", err)
        self.assertTrue(out.endswith("stopped after a checkpoint; the same command goes on\n"), out)
        out, _ = self.expect_end(self.train(steps), 0)
        self.assertIn(f"step {steps}/{steps}", out)
        hashes = {json.loads((job / "summary.json").read_text())["weights_hash"] for job in (self.job, self.folder / "alone")}
        self.assertEqual(len(hashes), 1, hashes)
        self.assertIn("accuracy", self.log("evaluator-0"))


class DryRun(LaunchTest):
    ssh = "remotely -x"

    def test_prints_what_a_shell_can_run(self):
        shown = self.run_program(*self.words("--dry-run"), env=self.environment).stdout.splitlines()
        self.assertEqual(shown[::2], ["# server 0 on 127.0.0.1", "# worker 0 on 127.0.0.2", "# worker 1 on 127.0.0.2",
                                      "# worker 2 on 127.0.0.3", "# evaluator 0 on 127.0.0.1"])
        words = shlex.split(shown[3])
        self.assertEqual(words[:3], ["remotely", "-x", "127.0.0.2"])
        remote = shlex.split(words[3])
        self.assertEqual(remote[:5], ["cd", str(self.folder), "&&", "exec", "env"])
        self.assertIn("COHORT_ODD=it's $HOME", remote)
        self.assertEqual(remote[remote.index("attend") - 1:][:4], [str(MEMBER), "attend", str(MEMBER), "train"])
        self.assertFalse(self.job.exists(), "nothing is begun")

    def test_by_default_it_is_this_program_here_over_ssh(self):
        shown = self.run_program("launch", "--hosts", "hosts", "--dry-run", "--", "train", *RUN).stdout.splitlines()
        self.assertRegex(shown[0], "^# job directory runs/mnist-fc-")
        words = shlex.split(shown[2])
        self.assertEqual(words[0], "ssh")
        self.assertIn("BatchMode=yes", words)
        self.assertRegex(words[-1], rf"^cd {self.folder} && exec (env .*)?{PROGRAM} attend {PROGRAM} train ")
        self.assertIn(f" --job-dir {shown[0].split()[-1]} ", words[-1])
        self.assertFalse((self.folder / "runs").exists())

    def test_other_places_there(self):
        shown = self.run_program("launch", "--hosts", "hosts", "--directory", "/else where", "--remote-program", "cohort",
                                 "--dry-run", "--", "train", *RUN, "--job-dir", "/shared/run", env=self.environment).stdout
        self.assertIn("cd '\\''/else where'\\'' && exec env ", shown)
        self.assertIn(" cohort attend cohort train ", shown)


class Refusals(LaunchTest):
    ssh = "ssh"

    def expect_refusal(self, sentence, *arguments):
        done = self.run_program("launch", *arguments, code=2)
        self.assertRegex(done.stderr, rf"\Acohort: [^\n]*{sentence}[^\n]*\n\Z")
        self.assertFalse((self.folder / "runs").exists(), "nothing is begun")

    def test_each_says_what_to_change(self):
        hosts = ("--hosts", "hosts")
        self.expect_refusal("--hosts is required", "--", "train")
        self.expect_refusal("--hosts nowhere is no file", "--hosts", "nowhere", "--", "train")
        self.expect_refusal("write -- train and its options, not -- eval", *hosts, "--", "eval")
        self.expect_refusal("did you mean --batch-size", *hosts, "--", "train", "--bath-size", "3")
        self.expect_refusal("no network called 'nonet'", *hosts, "--", "train", "--network", "nonet")
        for flag in ("--join", "--workers", "--ps-hosts"):
            self.expect_refusal("", *hosts, "--", "train", flag, "3")
        self.expect_refusal("the hosts file says who is where; leave --join out", *hosts, "--", "train", "--join=a:1")
        self.expect_refusal("give --job-dir as an absolute path", *hosts, "--directory", "/x", "--", "train", "--job-dir", "a")
        self.expect_refusal("--ssh needs a program", *hosts, "--ssh", " ", "--", "train")
        self.expect_refusal("no/ssh is not here", *hosts, "--ssh", "no/ssh", "--", "train", *RUN, "--job-dir", self.job)
        (self.folder / "hosts").write_text("a:1 worker\n\nb:2 boss\n")
        self.expect_refusal("line 3 of hosts has the role 'boss'", *hosts, "--", "train")


class Attend(ProgramTest):
    def attend(self, *command):
        process = subprocess.Popen([PROGRAM, "attend", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def test_has_the_commands_output_and_exit_code(self):
        for command, code in ((["sh", "-c", "echo out; echo err >&2; exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137)):
            process = self.attend(*command)
            process.wait(LIMIT)
            self.assertEqual(process.returncode, code)
        process = self.attend("sh", "-c", "echo out; echo err >&2; cat")
        self.assertEqual(process.wait(LIMIT), 0, "its input is empty")
        self.assertEqual((process.stdout.read(), process.stderr.read()), ("out\n", "err\n"))

    def test_the_command_ends_with_the_input(self):
        for farewell in ("", "end\n"):
            process = self.attend("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")
            child = int(process.stdout.readline())
            process.stdin.write(farewell)
            if farewell:
                process.stdin.flush()
            else:
                process.stdin.close()
                process.stdin = None
            self.assertEqual(process.wait(LIMIT), 137)
            self.wait_for(lambda number=child: not is_alive(number), limit=20)

    def test_it_ends_with_its_attendant_too(self):
        process = self.attend("sh", "-c", "echo $$; while :; do sleep 0.1; done")
        child = int(process.stdout.readline())
        process.kill()
        self.wait_for(lambda: not is_alive(child), limit=20)

    def test_a_stop_is_a_signal(self):
        for stop in (lambda process: (process.stdin.write("alive\nst"), process.stdin.flush(), time.sleep(0.2),
                                      process.stdin.write("op\n"), process.stdin.flush()),
                     lambda process: process.send_signal(signal.SIGTERM)):
            process = self.attend("sh", "-c", "trap 'exit 75' TERM; echo ready; while :; do sleep 0.05; done")
            process.stdout.readline()
            stop(process)
            self.assertEqual(process.wait(LIMIT), 75)

    def test_refusals(self):
        self.assertIn("needs a command", self.run_program("attend", code=2).stderr)
        self.assertIn("/no/such/program is no program", self.run_program("attend", "/no/such/program", code=2).stderr)


if __name__ == "__main__":
    main()
