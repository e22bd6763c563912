#!/usr/bin/env python3
"""divided_test.py PROGRAM [unittest options]: networks that workers divide by layers: the same bits for the same division, one kind of checkpoint for all of them."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess

from program import LIMIT, PROGRAM, long, main
from workers_test import MPIRUN, SMALL, Disturbed, Workers

# Eight grains do not divide by three workers.
SHORT = [*SMALL, "--train-steps", "4"]
HYBRID = ["--parallel", "hybrid"]


class Divided(Workers):
    def outcome(self, *arguments, job=None):
        """Of a run that trains to its end in a new folder."""
        job = job or self.job
        shutil.rmtree(job, ignore_errors=True)
        self.train(*arguments, job=job)
        return self.told(job)

    def told(self, job=None):
        """What does not depend on where the run was broken and went on."""
        summary = self.summary(job)
        return {key: summary[key] for key in ("weights_hash", "test_loss", "accuracy", "top5", "step")}

    def mpirun(self, *parts, code=0, job=None):
        """Each part is a number of workers and what these are told."""
        words = []
        for count, *arguments in parts:
            words += [":"] * bool(words) + ["-np", count, PROGRAM, "train", "--job-dir", job or self.job, *arguments]
        done = subprocess.run([*MPIRUN, *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("internal error", done.stderr)
        return done

    def evaluated(self, job=None):
        """What one process says of a run's newest checkpoint, in the words of a summary."""
        text = self.run_program("eval", "--job-dir", job or self.job, "--threads", "1").stdout
        found = re.search(r"loss (\S+), top-1 (\S+), top-5 (\S+)\nweights (\S+)\n", text)
        self.assertIsNotNone(found, text)
        return found.groups()

    def assert_evaluates_the_same(self, job=None):
        told = self.told(job)
        self.assertEqual(self.evaluated(job), (f"{told['test_loss']:.6f}", f"{told['accuracy']:.4f}", f"{told['top5']:.4f}",
                                               told["weights_hash"]))

    def header(self, job=None):
        """What the newest checkpoint says of its tensors, and the bytes behind it."""
        data = self.checkpoints(job)[-1].read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        tensors = json.loads(data[8:8 + length])
        tensors.pop("__metadata__")
        return tensors, len(data) - 8 - length


class SameBits(Divided):
    def test_for_every_start_and_launcher(self):
        alone = self.outcome(*SHORT, "--threads", "2")
        for parallel in ("hybrid", "model"):
            with self.subTest(parallel):
                run = [*SHORT, "--parallel", parallel]
                first = self.outcome(*run, "--workers", "2")
                self.assertEqual(self.outcome(*run, "--workers", "2", "--threads", "3"), first)
                shutil.rmtree(self.job)
                self.mpirun((1, *run, "--threads", "1"), (1, *run, "--threads", "3"))
                self.assertEqual(self.told(), first)
                # The same training, in other bits.
                self.assertNotEqual(first["weights_hash"], alone["weights_hash"])
                self.assertAlmostEqual(first["test_loss"], alone["test_loss"], delta=1e-5)

    def test_without_layers_to_divide_they_are_those_of_one_worker(self):
        alone = self.outcome(*SHORT, "--threads", "2")
        for run in (["--workers", "1", *HYBRID], ["--workers", "3", "--parallel", "data"],
                    ["--workers", "2", *HYBRID, "--split", "fc.*=data"], ["--workers", "2", *HYBRID, "--mesh", "data=2,model=1"]):
            with self.subTest(run):
                self.assertEqual(self.outcome(*SHORT, *run), alone)

    def test_a_mesh_says_how_many_workers_there_are(self):
        first = self.outcome(*SHORT, *HYBRID, "--mesh", "data=2,model=2")
        self.assertEqual(len(self.summary()["workers"]), 4)
        self.assertEqual(self.outcome(*SHORT, *HYBRID, "--mesh", "model=2,data=2", "--workers", "4"), first)
        other = self.outcome(*SHORT, *HYBRID, "--workers", "4")
        self.assertNotEqual(other["weights_hash"], first["weights_hash"])
        self.assertAlmostEqual(other["test_loss"], first["test_loss"], delta=1e-5)

    def test_half_the_bytes(self):
        # Only what all workers have is exchanged, and only what one worker of each group has.
        for run in ([*HYBRID, "--workers", "2"], ["--parallel", "model", "--mesh", "data=2,model=2"]):
            with self.subTest(run):
                exact = self.outcome(*SHORT, *run)
                half = self.outcome(*SHORT, *run, "--wire", "fp16")
                self.assertNotEqual(half["weights_hash"], exact["weights_hash"])
                self.assertAlmostEqual(half["test_loss"], exact["test_loss"], delta=2e-3)
                self.assertEqual(self.outcome(*SHORT, *run, "--wire", "fp16"), half)

    def test_fewer_test_images_than_workers(self):
        run = [word if word != "80" else "2" for word in SHORT]
        self.train(*run, *HYBRID, "--workers", "4", "--eval-every", "1")
        self.assert_evaluates_the_same()
        points = [json.loads(line) for line in (self.job / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([point["samples"] for point in points if point["kind"] == "test"], [2] * 4)
        alone = self.outcome(*run, "--threads", "1", "--eval-every", "1", job=self.folder / "alone")
        self.assertAlmostEqual(self.told()["test_loss"], alone["test_loss"], delta=1e-5)

    def test_receipts_and_a_replay(self):
        run = [*SMALL, *HYBRID, "--workers", "2", "--receipt-every", "2", "--checkpoint-every", "4", "--keep", "9"]
        self.train(*run, "--train-steps", "12", "--trace")
        self.train(*run, "--train-steps", "12", job=self.folder / "other")
        self.assertEqual(self.run_program("verify", "job", "other").stdout, "equal: 6 receipts, of steps 2 to 12\n")
        self.assertEqual(self.run_program("verify", "job", "--replay", "4:12").stdout, "equal: 4 receipts, of steps 6 to 12\n")
        self.assertIn("divided as hybrid over data=1,model=2", self.run_program("verify", "job", "--replay", "4:12", "--workers", "3", code=2).stderr)
        # A receipt has the weights that only one of the workers computes, too.
        last = json.loads((self.job / "receipt.jsonl").read_text().splitlines()[-1])
        self.assertEqual(last["weights"], self.summary()["weights_hash"])
        self.train(*SMALL, "--parallel", "model", "--workers", "2", "--receipt-every", "2", "--train-steps", "12",
                   job=self.folder / "model")
        self.assertRegex(self.run_program("verify", "job", "model", code=5).stdout, "different from step 2 on")

    def test_a_replay_stops_where_the_division_changed(self):
        run = [*SMALL, "--receipt-every", "2", "--checkpoint-every", "4", "--keep", "9"]
        self.train(*run, *HYBRID, "--workers", "2", "--train-steps", "8")
        self.train(*run, "--parallel", "data", "--workers", "1", "--train-steps", "12")
        replay = lambda steps, code=0: self.run_program("verify", "job", "--replay", steps, code=code)
        refusal = ("job went on after step 8 divided otherwise (hybrid over data=1,model=2, then data), and a replay is "
                   "divided in one way; give --replay 4:8, and another for the steps after it")
        self.assertEqual(replay("4:12", code=2).stderr, f"cohort: {refusal}\n")
        self.assertEqual(replay("4:8").stdout, "equal: 2 receipts, of steps 6 to 8\n")
        self.assertEqual(replay("8:12").stdout, "equal: 2 receipts, of steps 10 to 12\n")
        # Steps after the last checkpoint are those of the configuration that the run has now.
        self.checkpoints()[-1].unlink()
        self.assertEqual(replay("4:12", code=2).stderr, f"cohort: {refusal}\n")
        self.assertEqual(replay("8:12").stdout, "equal: 2 receipts, of steps 10 to 12\n")


class Checkpoints(Divided):
    ADAM = [*SMALL, "--optimizer", "adam", "--average-decay", "0.9", "--lr", "0.001"]

    def test_are_the_same_file_for_every_division(self):
        expected = None
        for run in (["--threads", "2"], ["--workers", "2", *HYBRID], ["--workers", "3", "--parallel", "model"],
                    [*HYBRID, "--mesh", "data=2,model=2"]):
            with self.subTest(run):
                self.outcome(*self.ADAM, "--train-steps", "2", *run)
                expected = expected or self.header()
                self.assertEqual(self.header(), expected)
        slots = {name.split(".")[1] for name in expected[0] if name.startswith("slot.")}
        self.assertEqual(slots, {"moment1", "moment2", "average"})

    def test_a_run_goes_on_in_every_other_way(self):
        self.train(*self.ADAM, "--threads", "2", "--train-steps", "12", job=self.folder / "calm")
        for steps, run in ((2, [*HYBRID, "--workers", "4"]), (4, ["--parallel", "data", "--workers", "2"]),
                           (6, ["--parallel", "model", "--workers", "3"]), (8, [*HYBRID, "--mesh", "data=2,model=2", "--workers", "4"]),
                           (10, ["--parallel", "data", "--split", "fc1=model", "--workers", "2"]), (12, ["--parallel", "data", "--workers", "1"])):
            with self.subTest(run):
                self.train(*self.ADAM, "--train-steps", steps, *run)
                self.assertEqual(self.summary()["start_step"], steps - 2)
                self.assert_evaluates_the_same()
        calm = self.told(self.folder / "calm")
        self.assertAlmostEqual(self.told()["test_loss"], calm["test_loss"], delta=1e-4)

    def test_without_division_any_workers_go_on_to_the_same_bits(self):
        self.train(*self.ADAM, "--train-steps", "3", *HYBRID, "--workers", "3")
        shutil.copytree(self.job, self.folder / "copy")
        self.train(*self.ADAM, "--train-steps", "6", "--parallel", "data", "--workers", "2")
        self.train(*self.ADAM, "--train-steps", "6", "--parallel", "data", "--workers", "1", job=self.folder / "copy")
        self.assertEqual(self.told(), self.told(self.folder / "copy"))

    def test_the_same_division_goes_on_to_the_bits_of_an_unbroken_run(self):
        for run in ([*HYBRID, "--workers", "3"], ["--parallel", "model", "--mesh", "data=2,model=2"]):
            with self.subTest(run):
                calm = self.outcome(*self.ADAM, *run, "--train-steps", "9", job=self.folder / "calm")
                self.outcome(*self.ADAM, *run, "--train-steps", "5")
                # What is stored says how.
                self.train("--train-steps", "9")
                self.assertEqual(self.told(), calm)

    def test_start_another_run(self):
        source = self.outcome(*SHORT, *HYBRID, "--workers", "2", job=self.folder / "source")
        checkpoint = self.checkpoints(self.folder / "source")[-1]
        for run in (["--parallel", "model", "--workers", "3"], ["--threads", "1"]):
            with self.subTest(run):
                copy = self.outcome(*SHORT, *run, "--init-from", checkpoint, "--optimizer", "sgd", "--lr", "0", "--seed", "9")
                self.assertEqual(copy["weights_hash"], source["weights_hash"])


class Division(Divided):
    """How it is said."""

    def stored(self):
        text = (self.job / "config.yaml").read_text()
        return tuple(re.search(rf"^{name}: (.*)$", text, re.M)[1] for name in ("workers", "parallel"))

    def test_older_modes(self):
        modes = {"1dev": ("1", "data"), "2dev-data": ("2", "data"), "2dev-model": ("2", "model"),
                 "2dev-model-data": ("2", "hybrid"), "4dev-data": ("4", "data"), "4dev-model": ("4", "model"),
                 "4dev-model-data": ("4", "hybrid")}
        hashes = {}
        for mode, meaning in modes.items():
            with self.subTest(mode):
                hashes[mode] = self.outcome(*SMALL, "--train-steps", "2", "--mode", mode)["weights_hash"]
                self.assertEqual(self.stored(), meaning)
                self.assertEqual(len(self.summary()["workers"]), int(meaning[0]))
        self.assertEqual(len(set(hashes.values())), 5, "one for data, and one for each other division")
        self.assertEqual(self.outcome(*SMALL, "--train-steps", "2", *HYBRID, "--workers", "4")["weights_hash"],
                         hashes["4dev-model-data"])
        shutil.rmtree(self.job)
        self.mpirun((2, *SMALL, "--train-steps", "2", "--mode", "2dev-model"))
        self.assertEqual(self.told()["weights_hash"], hashes["2dev-model"])

    def test_is_described(self):
        text = self.run_program("describe", "--network", "mnist-cnn", "--batch-size", "48", "--grains", "8", *HYBRID,
                                "--workers", "2").stdout
        self.assertEqual(re.findall(r"^from-(\S+) +(\w+ to \w+) ", text, re.M),
                         [("conv2", "samples to copies"), ("fc1", "channels to copies"), ("fc2", "channels to samples")])
        self.assertRegex(text, r"a lane's memory: .* for rounds of 2 grains of 6 \(batch 48\)")

    def test_a_file_says_it_layer_by_layer(self):
        by_rules = self.outcome(*SHORT, "--split", "conv2=data", "--split", "conv.*=model", "--split", "fc1=model",
                                "--workers", "2")
        (self.folder / "strategy.yaml").write_text('conv2: data\n"conv.*": model\nfc1: model\n')
        self.assertEqual(self.outcome(*SHORT, "--strategy", "strategy.yaml", "--workers", "2"), by_rules)
        # The run keeps what the file said.
        (self.folder / "strategy.yaml").unlink()
        self.train("--train-steps", "5")
        whole = self.outcome(*SHORT, "--parallel", "model", "--workers", "2")
        self.assertNotEqual(whole["weights_hash"], by_rules["weights_hash"])
        self.assertAlmostEqual(whole["test_loss"], by_rules["test_loss"], delta=1e-5)


class Refusals(Divided):
    def refuse(self, sentence, *arguments):
        with self.subTest(arguments):
            done = self.train(*SHORT, *arguments, code=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, sentence)
            self.assertFalse(self.job.exists(), "nothing was begun")
            shutil.rmtree(self.job, ignore_errors=True)

    def test_words(self):
        self.refuse("--parallel is data, model or hybrid, not 'modl'", "--parallel", "modl", "--workers", "2")
        self.refuse("LAYER=data or LAYER=model.* not 'fc1=modle'", "--split", "fc1=modle", "--workers", "2")
        self.refuse("LAYER=data or LAYER=model.* not 'fc1'", "--split", "fc1", "--workers", "2")
        self.refuse(r"'\(' is no regular expression", "--split", "(=model", "--workers", "2")
        self.refuse("two rules for 'fc1'", "--split", "fc1=model", "--split", "fc1=data", "--workers", "2")
        for mesh in ("data", "data=0", "data=2,data=2", "data=2,", "model=two"):
            self.refuse(f"--mesh takes data=D,model=M .*, not '{mesh}'", *HYBRID, "--mesh", mesh)
        self.refuse("--mode 2dev is not known; it is 1dev, .* or 4dev-model-data", "--mode", "2dev")
        self.refuse("there is no strategy file none.yaml", "--strategy", "none.yaml", "--workers", "2")
        (self.folder / "strategy.yaml").write_text("fc1: model\nfc2: modle\n")
        self.refuse(r"strategy.yaml:2:\d+: .*modle", "--strategy", "strategy.yaml", "--workers", "2")

    def test_layers(self):
        self.refuse("no layer .* is called 'fc3'; there are conv1, conv2, fc1, fc2", "--split", "fc3=model", "--workers", "2")
        self.refuse("layer fc2 has 10 outputs, too few to divide over 12 workers; keep it whole \\(--parallel with --split 'fc2=data'\\)",
                    "--batch-size", "48", "--grains", "12", "--parallel", "model", "--workers", "12")

    def test_numbers_of_workers(self):
        self.refuse("--mesh data=2,model=2 is for 4 workers, not 3", *HYBRID, "--mesh", "data=2,model=2", "--workers", "3")
        self.refuse("--mesh model=2 needs layers that are split by model", "--mesh", "model=2")
        self.refuse("--mesh model=2 fixes the number of workers", *HYBRID, "--mesh", "model=2", "--elastic")
        self.refuse("9 workers need a grain each", *HYBRID, "--workers", "9")
        for more in (["--workers", "3"], ["-o", "workers=3"]):
            self.refuse("--mode 2dev-model is for 2 workers, not 3", "--mode", "2dev-model", *more)
        self.refuse("--mode 1dev is for 1 worker, not 2", "--mode", "1dev", "--workers", "2")

    def test_rules_of_workers_that_step_alone(self):
        for rule in (["--sync", "local"], ["--sync", "diloco"], ["--sync", "async"], ["--sync", "ssp"], ["--servers", "1"]):
            for division in (["--parallel", "model"], HYBRID, ["--split", "fc1=model"]):
                self.refuse(r"--(parallel \w+|split 'fc1=model') needs --sync bsp without servers", *division, *rule,
                            "--workers", "2")

    def test_under_mpirun(self):
        for sentence, count, arguments in (
                ("--mode 2dev-model is for 2 workers, not 3", 3, ["--mode", "2dev-model"]),
                ("--mode 4dev-data is for 4 workers, not 2", 2, ["--mode", "4dev-data"]),
                ("--mesh data=2,model=2 is for 4 workers, not 2", 2, [*HYBRID, "--mesh", "data=2,model=2"]),
                ("no layer that can be split is called 'fc3'", 2, ["--split", "fc3=model"])):
            with self.subTest(arguments):
                done = self.mpirun((count, *SHORT, *arguments), code=2)
                self.assertIn(f"cohort: worker 0: {sentence}", done.stderr)
                self.assertFalse(self.job.exists(), "nothing was begun")
                shutil.rmtree(self.job, ignore_errors=True)
        done = self.mpirun((1, *SHORT, *HYBRID), (1, *SHORT, "--parallel", "model"), code=2)
        self.assertIn("worker 1 has 'parallel: model' where worker 0 has 'parallel: hybrid'", done.stderr)


@long
class Disturbances(Disturbed, Divided):
    LONG = [*SMALL, "--train-steps", "150", "--checkpoint-every", "10", "--stall-timeout", "10", *HYBRID, "--workers", "3"]

    def test_a_killed_worker_and_a_stop(self):
        calm = self.outcome(*self.LONG, job=self.folder / "calm")
        process = self.start(*self.LONG)
        self.wait_for(lambda: self.newest() >= 30)
        os.kill(self.processes()[1], signal.SIGKILL)
        self.wait_for(lambda: self.newest() >= 80)
        process.send_signal(signal.SIGTERM)
        output, errors = self.finish(process, code=75)
        self.assertRegex(errors, r"worker 1 was ended by signal 9 \(Killed\) after step \d+; starting 3 workers again")
        self.assertIn("stopped by a signal", output)
        self.train(*self.LONG)
        self.assertEqual(self.told(), calm)



if __name__ == "__main__":
    main()
