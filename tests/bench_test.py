#!/usr/bin/env python3
"""bench_test.py PROGRAM [unittest options]: drives `cohort bench` as its users do."""

import json
import re
import shutil
import subprocess
import unittest

from program import LIMIT, PROGRAM, ProgramTest

CASES = ["fc_none", "fc_data", "fc_model", "conv_none", "conv_data", "conv_model"]
TINY = "--shape 3x12x10 --outputs 32 --kernel 3 --batch 8 --steps 4".split()
# Weights and biases of the tiny layers.
FLOATS = {"fc": 32 * (3 * 12 * 10 + 1), "conv": 32 * (3 * 3 * 3 + 1)}


class Layer(ProgramTest):
    def bench(self, *arguments, code=0):
        return self.run_program("bench", "layer", *arguments, code=code)

    def results(self):
        return {row["case"]: row for row in json.loads((self.folder / "layer.json").read_text())}

    def check_table(self, text, results):
        """Every number of the table is that of the file."""
        rows = [line.split() for line in text.splitlines() if re.match(r"(fc|conv)_", line)]
        self.assertEqual([row[0] for row in rows], list(results))
        for name, *numbers in rows:
            row = results[name]
            wanted = [row["workers"], *(1e3 * row[key] for key in ("forward_s", "backward_s", "update_s", "communication_s",
                                                                   "step_s")),
                      row["images_per_s"], row["sent_bytes_per_step"] / 1e6]
            self.assertEqual(len(numbers), len(wanted))
            for number, value in zip(numbers, wanted):
                self.assertAlmostEqual(float(number), value, delta=0.0051, msg=name)

    def check_times(self, row):
        for key in ("forward_s", "backward_s", "update_s", "step_s"):
            self.assertGreater(row[key], 0, row)
        for key in ("forward_s", "backward_s", "update_s", "communication_s"):
            self.assertLess(row[key], row["step_s"], row)
        self.assertAlmostEqual(row["images_per_s"], row["batch"] / row["step_s"])
        if row["workers"] > 1:
            self.assertGreater(row["communication_s"], 0, row)

    def check_traffic(self, row, other=0):
        """By how a layer is divided, all but some losses and wishes."""
        layer, mode = row["case"].split("_")
        workers = row["workers"]
        if mode == "none":
            wanted = 0
        elif mode == "data":
            # What others own of the gradients goes to them, what this one owns of the weights to all others.
            wanted = 2 * 4 * FLOATS[layer] * (workers - 1) / workers
        else:
            # Own outputs of others' samples go to them, and gradients of the own samples' other outputs back.
            wanted = 2 * 4 * (8 / workers) * 32 * (workers - 1) / workers
        self.assertGreaterEqual(row["sent_bytes_per_step"], wanted, row)
        self.assertLess(row["sent_bytes_per_step"] - wanted, 200 * workers if workers > 1 else 1, row)

    def test_all_is_a_table_of_six(self):
        text = self.bench("all", *TINY, "--json", "layer.json").stdout
        results = self.results()
        self.assertEqual(list(results), CASES)
        self.check_table(text, results)
        self.assertIn("images of 3x12x10 in batches of 8, 1 lane a worker, medians of 4 steps", text)
        self.assertIn("fc: a dense layer of 32 outputs, softmax loss", text)
        self.assertIn("conv: 3x3/2 with 32 outputs, global average pool, softmax loss", text)
        self.assertIn("comm: lanes' time for packing, waiting, unpacking and adding", text)
        self.assertIn("inputs are images, which every\nworker reads by itself", text)
        for name, row in results.items():
            self.assertEqual(row["workers"], 1 if name.endswith("none") else 2)
            self.check_times(row)
            self.check_traffic(row)
        # However it is divided, it is the same layer, which learns the same.
        for layer in ("fc", "conv"):
            alone = results[f"{layer}_none"]["loss"]
            for mode in ("data", "model"):
                self.assertAlmostEqual(results[f"{layer}_{mode}"]["loss"], alone, delta=1e-4 * alone)

    def test_one_layer_on_more_workers_and_lanes(self):
        for name in ("fc_model", "conv_data"):
            text = self.bench(name, *(TINY if name == "conv_data" else TINY[:4] + TINY[6:]), "--workers", 4, "--threads", 2,
                              "--json", "layer.json").stdout
            results = self.results()
            self.check_table(text, results)
            row = results[name]
            self.assertEqual((row["workers"], row["lanes"], row["batch"], row["steps"]), (4, 2, 8, 4))
            self.check_times(row)
            self.check_traffic(row)

    def test_learns(self):
        losses = []
        for steps in (1, 20):
            self.bench("fc_data", *TINY[:4], "--batch", 8, "--steps", steps, "--json", "layer.json")
            losses.append(self.results()["fc_data"]["loss"])
        self.assertLess(losses[1], 0.9 * losses[0])

    def test_under_mpirun_the_workers_are_those_that_are_there(self):
        mpirun = [shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"]
        done = subprocess.run([*mpirun, "3", PROGRAM, "bench", "layer", "all", *TINY[:6], "--batch", "6", "--steps", "2",
                               "--json", "layer.json"], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = self.results()
        self.assertEqual([row["workers"] for row in results.values()], [1, 3, 3, 1, 3, 3])
        self.check_table(done.stdout, results)
        done = subprocess.run([*mpirun, "2", PROGRAM, "bench", "layer", "fc_data", "--workers", "3"], cwd=self.folder,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("mpirun has started 2 workers, and --workers says 3", done.stderr)

    def test_wrong_values_are_one_sentence(self):
        for pattern, arguments in (
                (r"CASE is required", []),
                (r"no layer 'fc_modle' to measure \(did you mean 'fc_model'\?\); there are fc_none, .*conv_model, all", ["fc_modle"]),
                (r"--shape takes channels, height and width, .*not '256x256'", ["fc_none", "--shape", "256x256"]),
                (r"--shape takes .*not '3x256x256x'", ["fc_none", "--shape", "3x256x256x"]),
                (r"--shape takes .*not '3x0x256'", ["fc_none", "--shape", "3x0x256"]),
                (r"--shape takes .*not '3x-1x256'", ["fc_none", "--shape", "3x-1x256"]),
                (r"--shape takes .*not '3x99999x256'", ["fc_none", "--shape", "3x99999x256"]),
                (r"--steps", ["fc_none", "--steps", "0"]),
                (r"--batch", ["fc_none", "--batch", "many"]),
                (r"--outputs", ["fc_none", "--outputs", "-3"]),
                (r"a batch of 10 does not divide into 4 equal parts, one for each lane of 4 workers; 12 would",
                 ["fc_data", "--workers", "4"]),
                (r"a batch of 10 does not divide into 3 equal parts, one for each lane of 1 worker; 12 would",
                 ["all", "--threads", "3"]),
                (r"a layer of 2 outputs cannot be divided over 5 workers", ["fc_model", "--outputs", "2", "--workers", "5"]),
                (r"layer layer \(conv 11x11/2.*\) does not fit its 8x8 input", ["conv_none", "--shape", "3x8x8"]),
                (r"divided over 2 workers at least", ["conv_data", "--workers", "1"]),
                (r"fc_none has one worker; leave --workers out", ["fc_none", "--workers", "2"]),
                (r"--kernel is for convolutions, and fc_data is none", ["fc_data", "--kernel", "3"]),
                (r"--stride is for convolutions, and fc_data is none", ["fc_data", "--stride", "3"]),
                (r"cohort bench layer does not know --bath; did you mean --batch\?", ["fc_none", "--bath", "3"])):
            with self.subTest(arguments):
                done = self.bench(*arguments, code=2)
                self.assertRegex(done.stderr, pattern)
                self.assertRegex(done.stderr, r"\Acohort: [^\n]*\n\Z", "one sentence")
                self.assertEqual(done.stdout, "")

    def test_a_file_that_cannot_be_written(self):
        done = self.bench("fc_none", *TINY[:4], "--json", "nowhere/layer.json", code=3)
        self.assertIn("nowhere/layer.json", done.stderr)

    def test_help(self):
        text = self.bench("--help").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        for word in [*CASES, "all", "--workers", "--batch", "--shape", "--outputs", "--kernel", "--stride", "--steps", "--threads",
                     "--json", "mpirun"]:
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
