#!/usr/bin/env python3
"""study_test.py PROGRAM [unittest options]: drives `cohort study` as its users do."""

import csv
import fcntl
import json
import os
import re
import signal
import subprocess
import unittest
import xml.etree.ElementTree
from pathlib import Path

from program import LIMIT, ProgramTest

TINY = ("settings: {network: mnist-fc, dataset: synthetic, image-size: 8, samples: 300, test-samples: 50, "
        "grains: 2, threads: 1, train-steps: %d}\n")
# Long enough to be met in the middle.
LONG = TINY % 4000 + "vary:\n  batch-size: [20, 40]\n"
STUDIES = Path(__file__).resolve().parent.parent / "studies"


class Studies(ProgramTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "s.yaml"
        self.out = self.folder / "studies-out" / "s"

    def study(self, *arguments, code=0, text=None):
        if text is not None:
            self.file.write_text(text)
        done = self.run_program("study", "s.yaml", *arguments, code=code)
        self.assertRegex(done.stderr, r"\A\Z" if code in (0, 75) else r"\Acohort: .*\n\Z", "one sentence")
        return done

    def start(self, text, **options):
        """A study whose first run has done a step."""
        self.file.write_text(text)
        process = self.start_program("study", "s.yaml", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     **options)
        output = self.out / "runs" / "batch-size=20" / "output.txt"
        self.wait_for(lambda: output.exists() and "\nstep " in output.read_text())
        return process

    def rows(self, folder=None):
        with open((folder or self.out) / "results.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def hashes(self, folder=None):
        return {row["run"]: row["weights_hash"] for row in self.rows(folder)}

    def outcome(self, run):
        return json.loads((self.out / "runs" / run / "outcome.json").read_text())

    def calm(self, text):
        """The weights of the study that nobody disturbs."""
        self.study("--study-dir", "calm", text=text)
        return self.hashes(self.folder / "calm")


class Results(Studies):
    TEXT = TINY % 5 + """
vary:
  batch-size: [20, 40]
  lr: [0.1, 0.01]
repeat: 2
seeds: different
measure: [images_per_s, accuracy]
chart: {x: batch-size, y: [accuracy, loss], log-x: true}
"""

    def test_everything_that_is_needed_to_repeat_a_study_is_kept(self):
        done = self.study(text=self.TEXT)
        self.assertIn("8 of 8 runs finished: studies-out/s/report.html", done.stdout)
        self.assertRegex(done.stdout, r"1/8  batch-size=20, lr=0\.1\n  done in 0:\d\d: images_per_s [\d,.]+, accuracy ")
        self.assertRegex(done.stdout, r"\A[\n -~]+\Z", "no control characters")
        rows = self.rows()
        self.assertEqual([row["run"] for row in rows][:5],
                         ["batch-size=20_lr=0.1", "batch-size=20_lr=0.01", "batch-size=40_lr=0.1",
                          "batch-size=40_lr=0.01", "batch-size=20_lr=0.1_repeat=2"])
        self.assertEqual((rows[2]["batch-size"], rows[2]["lr"], rows[2]["exit_code"], rows[2]["step"]),
                         ("40", "0.1", "0", "5"))
        self.assertEqual((rows[4]["repetition"], rows[0]["repetition"]), ("2", "1"))
        self.assertNotEqual(rows[4]["weights_hash"], rows[0]["weights_hash"], "another seed")
        self.assertEqual((self.out / "study.yaml").read_text(), self.TEXT)
        for chart in ("chart-1-accuracy.svg", "chart-1-loss.svg"):
            xml.etree.ElementTree.parse(self.out / chart)
        page = (self.out / "report.html").read_text()
        for word in ("8 of 8 runs finished", "<svg", "results.csv", "runs/batch-size=40_lr=0.01_repeat=2/output.txt"):
            self.assertIn(word, page)
        for link in re.findall(r'href="([^"]+)"', page):
            self.assertTrue((self.out / link).exists(), link)
        # The recorded command repeats the run, elsewhere, to the bit.
        command = self.outcome("batch-size=40_lr=0.1_repeat=2")["command"]
        command[command.index("--job-dir") + 1] = "again"
        self.run_program(*command[1:])
        again = json.loads((self.folder / "again" / "summary.json").read_text())
        self.assertEqual(again["weights_hash"], self.hashes()["batch-size=40_lr=0.1_repeat=2"])

    def test_the_configuration_file_is_below_the_settings_and_kept(self):
        (self.folder / "configs").mkdir()
        config = self.folder / "configs" / "base.yaml"
        config.write_text("network: mnist-fc\ndataset: synthetic\nsamples: 300\nbatch-size: 20\ntrain-steps: 9\n")
        text = "config: configs/base.yaml\nsettings: {test-samples: 50, train-steps: 3}\nvary: {lr: [0.1]}\n"
        self.study(text=text)
        self.assertEqual(self.rows()[0]["step"], "3")
        self.assertEqual((self.out / "config.yaml").read_text(), config.read_text())
        self.assertEqual(self.outcome("lr=0.1")["command"][4:6], ["--config", "studies-out/s/config.yaml"])
        config.write_text(config.read_text().replace("300", "301"))
        self.assertIn("lr=0.1 (samples was 300 and is 301)", self.study(code=2).stderr)

    def test_a_dry_run_lists_and_does_nothing(self):
        done = self.study("--dry-run", text=self.TEXT)
        self.assertEqual(len(done.stdout.splitlines()), 9)
        self.assertIn("    4  batch-size=40_lr=0.01\n", done.stdout)
        self.assertFalse((self.folder / "studies-out").exists())

    def test_the_studies_that_come_along_can_be_planned(self):
        runs = {"atlas": 42, "batch-size": 7, "checkpoint-frequency": 5, "convergence": 87}
        files = sorted(STUDIES.glob("*.yaml"))
        self.assertEqual([file.stem for file in files], sorted(runs))
        for file in files:
            with self.subTest(file.name):
                done = self.run_program("study", file, "--dry-run")
                self.assertEqual((len(done.stdout.splitlines()) - 1, done.stderr), (runs[file.stem], ""))

    def test_a_terminal_has_a_live_line(self):
        self.file.write_text(TINY % 50 + "vary: {batch-size: [20, 40]}\n")
        live, shown = self.run_on_terminal("study", "s.yaml", columns=60)
        self.assertTrue(any(line.startswith("1/2  batch-size=20  0:0") for line in live), live)
        self.assertLess(max(map(len, live)), 60)
        self.assertEqual(sum(line.startswith("2/2  batch-size=40  done in ") for line in shown), 1, shown)


class Disturbed(Studies):
    def test_finished_runs_are_not_done_again(self):
        text = TINY % 3 + "vary: {batch-size: [20]}\n"
        self.study(text=text)
        before = (self.out / "runs" / "batch-size=20" / "summary.json").read_text()
        done = self.study()
        self.assertIn("1 run in studies-out/s, 1 finished before", done.stdout)
        done = self.study(text=text.replace("[20]", "[20, 40]"))
        self.assertIn("2 runs in studies-out/s, 1 finished before", done.stdout)
        self.assertEqual((self.out / "runs" / "batch-size=20" / "summary.json").read_text(), before)
        self.assertEqual([row["attempts"] for row in self.rows()], ["1", "1"])
        self.assertEqual((self.out / "study.yaml").read_text(), self.file.read_text())

    def test_signals_are_passed_on_and_the_named_command_goes_on(self):
        calm = self.calm(LONG)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                process = self.start(LONG)
                process.send_signal(number)
                output, _ = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 75, output)
                self.assertIn("stopped by a signal; go on with: cohort study s.yaml\n", output)
                interrupted = [row for row in self.rows() if row["interrupted"] == "true"]
                self.assertEqual([row["exit_code"] for row in interrupted], ["75"])
                stopped = int(interrupted[0]["step"])
                self.assertGreater(stopped, 0)
                self.study()
                self.assertEqual(self.hashes(), calm)
                resumed = [row for row in self.rows() if row["run"] == interrupted[0]["run"]][0]
                self.assertEqual((resumed["start_step"], resumed["attempts"]), (str(stopped), "2"))
                self.assertIn("1 run was stopped and resumed", (self.out / "report.html").read_text())
                subprocess.run(["rm", "-r", self.out], check=True)

    def test_ctrl_c_reaches_the_run_once(self):
        # A terminal sends it to the whole group; a run that got it twice would leave without a checkpoint.
        process = self.start(LONG, start_new_session=True)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        self.assertEqual([row["exit_code"] for row in self.rows() if row["exit_code"] != "0"], ["75"])

    def test_a_killed_study_takes_its_run_along_and_goes_on(self):
        calm = self.calm(LONG)
        process = self.start(LONG)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.communicate(timeout=LIMIT)
        for child in children:
            self.wait_for(lambda child=child: not Path(f"/proc/{child}").exists() or
                          " Z " in Path(f"/proc/{child}/stat").read_text())
        self.study()
        self.assertEqual(self.hashes(), calm)
        self.assertEqual(self.rows()[0]["attempts"], "2", "the killed attempt counts")

    def test_a_study_waits_for_the_process_that_still_has_a_run(self):
        job = self.out / "runs" / "batch-size=20"
        job.mkdir(parents=True)
        with open(job / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.file.write_text(TINY % 3 + "vary: {batch-size: [20]}\n")
            process = self.start_program("study", "s.yaml", stdout=subprocess.PIPE, text=True)
            process.stdout.readline()
            self.assertIn("waiting for the process that still trains in", process.stdout.readline())
            fcntl.flock(lock, fcntl.LOCK_UN)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0)

    def test_a_second_study_in_the_same_folder_is_refused(self):
        process = self.start(LONG)
        self.assertIn("another study is using studies-out/s", self.study(code=2).stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75)


class Wrong(Studies):
    def test_a_run_that_fails_is_recorded_and_the_others_go_on(self):
        text = TINY.replace("grains", "optimizer: sgd, grains") % 50 + "vary:\n  lr: [1e5, 0.01]\n"
        done = self.study(text=text, code=3)
        self.assertRegex(done.stderr, r"1 of 2 runs failed, the first of them lr=1e5 with exit code 2 \(see "
                                      r"studies-out/s/runs/lr=1e5/output\.txt\); the same command tries it again\n")
        self.assertIn("failed with exit code 2", done.stdout)
        self.assertEqual([row["exit_code"] for row in self.rows()], ["2", "0"])
        outcome = self.outcome("lr=1e5")
        self.assertEqual(outcome["exit_code"], 2)
        self.assertIn("the loss is no longer a number", outcome["last_line"])
        self.assertIn("the loss is no longer a number", (self.out / "report.html").read_text())
        self.study(code=3)
        self.assertEqual([row["attempts"] for row in self.rows()], ["2", "1"])

    def test_a_changed_file_is_refused_with_what_differs(self):
        text = TINY % 3 + "vary: {batch-size: [20, 40]}\n"
        self.study(text=text)
        before = sorted((path, path.stat().st_mtime_ns) for path in self.out.rglob("*"))
        for change, pattern in ((("[20, 40]", "[20]"), r"batch-size=40 \(is gone\)"),
                                (("train-steps: 3", "train-steps: 4"), r"train-steps was 3 and is 4"),
                                (("grains: 2", "grains: 4"), r"grains was 2 and is 4")):
            done = self.study(text=text.replace(*change), code=2)
            self.assertRegex(done.stderr, r"studies-out/s was begun with another s\.yaml: .*" + pattern)
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in self.out.rglob("*")), before)

    def test_a_bad_file_is_refused_before_anything_runs(self):
        for text, pattern in (
                ("vary:\n  batch-sizes: [1]\n", r"s\.yaml:2:3: .*did you mean 'batch-size'\?"),
                ("vary:\n  batch-size:\n    - 10\n    - ten\n", r"s\.yaml:4:7: batch-size takes a whole number"),
                ("vary:\n  optimizer: [sgd, best]\n", r"s\.yaml:2:"),
                ("vary:\n  lr: []\n", r"s\.yaml:2: the list of lr is empty"),
                ("vary: {lr: [1, 1]}\n", r"s\.yaml:1: lr=1 is the same run"),
                ("repeat: 2\nmesure: [loss]\n", r"s\.yaml:2: .*did you mean measure"),
                ("settings: [\n", r"s\.yaml:\d:\d: this is not YAML"),
                ("config: none.yaml\nrepeat: 2\n", r"none\.yaml")):
            with self.subTest(text):
                self.assertRegex(self.study(text=text, code=2).stderr, pattern)
        self.assertFalse((self.folder / "studies-out").exists())
        self.file.unlink()
        self.assertIn("s.yaml", self.study(code=3).stderr)


if __name__ == "__main__":
    unittest.main()
