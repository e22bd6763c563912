#!/usr/bin/env python3
"""command_line_test.py PROGRAM [unittest options]: what the program says, and its exit codes."""

import re
import unittest

from training_run import SMALL, TrainingTest


class Words(TrainingTest):
    def test_help_fits_100_columns(self):
        for arguments in (["--help"], ["train", "--help"], ["eval", "--help"], ["describe", "--help"],
                          ["cluster", "show", "--help"], ["launch", "--help"]):
            text = self.run_program(*arguments).stdout
            self.assertIn("Usage: cohort", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, arguments)

    def test_help_names_every_command_and_flag(self):
        self.assertRegex(self.run_program("--help").stdout, r"(?s)train.*eval.*describe.*75")
        text = self.run_program("train", "--help").stdout
        for flag in ("network dataset data-dir image-size batch-size train-steps epochs max-time optimizer lr momentum "
                     "weight-decay schedule job-dir checkpoint-every keep eval-every seed threads grains workers "
                     "init-from param-rule isa config transforms normalize validation-split shuffle").split():
            self.assertIn(f"--{flag} ", text)

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"^cohort \d+\.\d+\.\d+\n$")

    def expect_error(self, code, pattern, *arguments):
        done = self.run_program(*arguments, code=code)
        self.assertRegex(done.stderr, pattern, arguments)
        self.assertRegex(done.stderr, r"^cohort: .*\n$", "one sentence")

    def test_typos_get_a_suggestion(self):
        self.expect_error(2, r"--batchsize; did you mean --batch-size\?", "train", "--batchsize", "3")
        self.expect_error(2, r"--bath-size; did you mean --batch-size\?", "train", "--bath-size=3")
        self.expect_error(2, r"--treads; did you mean --threads\?", "eval", "--job-dir", ".", "--treads", "3")
        self.expect_error(2, r"--quantum; see cohort train --help", "train", "--quantum")
        self.expect_error(2, r"--learning-rat; see|did you mean --lr", "train", "--learning-rat", "1")
        self.expect_error(2, r"'minst' \(did you mean 'mnist'\?\)", "train", "--dataset", "minst")
        commands = ("train, launch, serve, credentials, status, cluster, doctor, slurm, eval, describe, data, bench, report, verify, "
                    "replay or study")
        self.expect_error(2, rf"'trian' is no command: it is {commands}", "trian")
        self.expect_error(2, r"did you mean 'mnist-cnn'\?", "train", "--network", "mnist-cn")
        self.expect_error(2, commands)

    def test_wrong_values_are_usage_errors(self):
        for pattern, arguments in (
                (r"no network called 'nonet'", ["--network", "nonet"]),
                (r"no dataset called 'nodata'.*synthetic", ["--dataset", "nodata"]),
                (r"(?i)optimizer.*noopt|noopt.*optimizer", [*SMALL, "--optimizer", "noopt"]),
                (r"(?i)schedule.*noplan|noplan.*schedule", [*SMALL, "--schedule", "noplan"]),
                (r"--isa mmx is unknown; this machine has .*avx2", [*SMALL, "--isa", "mmx"]),
                (r"--batch-size takes a whole number", ["--batch-size", "many"]),
                (r"40 does not divide into 3 grains; --grains 1, 2, 4, 5, 8, 10, 20, 40 would", [*SMALL, "--grains", "3"]),
                (r"--lr takes a number", ["--lr", "fast"]),
                (r"--lr must be from 0", [*SMALL, "--lr", "-1"]),
                (r"--lr takes a number", [*SMALL, "--lr", "1e400"]),
                (r"--max-time takes a time", ["--max-time", "soon"]),
                (r"--checkpoint-every takes steps or a time", [*SMALL, "--checkpoint-every", "often"]),
                (r"--workers", ["--workers", "0"]),
                (r"--lr", ["--lr"]),
                (r"(?i)no-such-folder", ["--dataset", "mnist", "--data-dir", "no-such-folder"]),
                (r"(?i)28", ["--dataset", "fashion-mnist", "--image-size", "30"]),
                (r"matches no|no weight", [*SMALL, "--param-rule", "nothing:lr=2"])):
            with self.subTest(arguments):
                self.expect_error(2, pattern, "train", *arguments)
        self.assertEqual(list(self.folder.glob("runs/*")), [], "a run that cannot begin leaves nothing")
        self.expect_error(2, r"the word after cohort bench is scaling", "bench")
        self.expect_error(2, r"the word after cohort cluster is show", "cluster")
        self.expect_error(2, r"--job-dir", "eval")
        self.expect_error(2, r"nowhere is no job directory", "eval", "--job-dir", "nowhere")
        self.expect_error(2, r"no network called 'nonet'", "describe", "--network", "nonet")
        self.expect_error(2, r"googlenet|conv|pool|small", "describe", "--network", "googlenet", "--image-size", "8")

    def test_what_the_world_lacks_is_an_io_error(self):
        (self.folder / "file").write_text("in the way")
        self.expect_error(3, r"file/job", "train", *SMALL, "--job-dir", "file/job")
        self.expect_error(3, r"absent\.safetensors", "train", *SMALL, "--init-from", "absent.safetensors")
        self.train(*SMALL, "--train-steps", "1")
        self.expect_error(3, r"absent\.safetensors", "eval", "--job-dir", self.job, "--checkpoint", "absent.safetensors")

    def test_describe_every_network(self):
        millions = {"alexnet": 61.10, "alexnet-lrn": 60.97, "overfeat": 145.92, "googlenet": 13.38, "resnet50": 25.56}
        names = [line.split()[0] for line in self.run_program("describe", "--list").stdout.splitlines()]
        self.assertLessEqual({"mnist-fc", "mnist-cnn", "cifar-cnn", "resnet20", "vgg16", *millions}, set(names))
        for name in [*names, "resnet26"]:
            with self.subTest(name):
                text = self.run_program("describe", "--network", name).stdout
                total = re.search(r"^([\d,]+) parameters, ([\d,]+) multiply-adds", text, re.MULTILINE)
                self.assertIsNotNone(total, text)
                count = int(total.group(1).replace(",", ""))
                self.assertGreater(count, 0)
                if name in millions:
                    self.assertEqual(round(count / 1e6, 2), millions[name])

    def test_report_of_runs(self):
        for name in ("a", "b"):
            (self.folder / name).mkdir()
            (self.folder / name / "config.yaml").write_text(f"network: mnist-fc\nseed: {name}\n")
        self.assertEqual(self.run_program("report", "a", "b").stdout, "report.html: 2 runs\n")
        self.assertIn("<th>seed</th><td>a</td><td>b</td>", (self.folder / "report.html").read_text())
        self.assertEqual(self.run_program("report", "a", "-o", "new/a.html", "--svg", "svg").stdout,
                         "new/a.html: 1 run\nsvg: 0 charts\n")
        self.expect_error(2, r"RUN is required", "report")
        self.expect_error(2, r"nothing is no job directory: .*config.yaml", "report", "a", "nothing")
        self.expect_error(2, r"-o takes the name of a file, and b is a folder", "report", "a", "-o", "b")
        self.expect_error(3, r"report.html/deeper", "report", "a", "-o", "report.html/deeper/a.html")
        (self.folder / "a" / "metrics.jsonl").write_text("{}\n")
        self.expect_error(3, r"Line 1 of a/metrics.jsonl", "report", "a")

    def test_without_a_terminal_there_are_no_control_characters(self):
        done = self.train(*SMALL, "--train-steps", "20", "--eval-every", "7")
        self.assertRegex(done.stdout + done.stderr, r"\A[\n -~]+\Z")
        self.assertIn("step 20/20", done.stdout)
        self.assertIn("step 7: test loss", done.stdout)

    def test_quiet_and_verbose(self):
        done = self.train(*SMALL, "--train-steps", "3", "--quiet")
        self.assertRegex(done.stdout, r"\Atest accuracy [^\n]*\n\Z")
        self.assertEqual(done.stderr, "")
        done = self.train(*SMALL, "--train-steps", "6", "-v")
        self.assertIn(f"job directory {self.job}\n", done.stdout)
        self.assertIn('batch-size: 40', done.stdout)
        self.assertRegex(done.stdout, r"step 6/6 .*  learning rate 0\.\d+")
        self.assertIn("--quiet or --verbose, not both", self.train("-q", "-v", code=2).stderr)

    def test_a_terminal_has_a_live_line(self):
        live, shown = self.run_on_terminal("train", "--job-dir", self.job, *SMALL, "--train-steps", "60",
                                           "--eval-every", "25", columns=50)
        self.assertGreaterEqual(len(live), 2, shown)
        self.assertTrue(live[-1].startswith("step 60/60  loss "), live)
        self.assertLess(max(map(len, live)), 50)
        self.assertEqual(sum(line.startswith("step 25: test loss") for line in shown), 1, shown)
        self.assertEqual(sum(line.startswith("step 60/60") for line in shown), 1, shown)


if __name__ == "__main__":
    unittest.main()
