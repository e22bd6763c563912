#!/usr/bin/env python3
"""runs_test.py PROGRAM [unittest options]: whole runs, their records, stops, kills and resumes, and full disks."""

import json
import math
import random
import re
import resource
import signal
import struct
import subprocess
import time
import unittest
from pathlib import Path

from program import LIMIT
from training_run import SMALL, TrainingTest

STEPS = 100  # of the runs that are stopped and resumed


def read_safetensors(path):
    """Metadata, and values by name with their shapes; written from the format's description, not from our reader."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length].decode("utf-8"))
    metadata = header.pop("__metadata__", {})
    payload = data[8 + length:]
    tensors = {}
    covered = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = tensor["data_offsets"]
        count = math.prod(tensor["shape"])
        assert tensor["dtype"] == "F32" and end - begin == 4 * count and begin == covered
        covered = end
        tensors[name] = (tensor["shape"], struct.unpack(f"<{count}f", payload[begin:end]))
    assert covered == len(payload)
    return metadata, tensors


def write_safetensors(path, tensors):
    header, payload = {}, b""
    for name, (shape, values) in tensors.items():
        part = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(payload), len(payload) + len(part)]}
        payload += part
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + payload)


class Disk(TrainingTest):
    """Places that cannot be written."""

    def limited(self, size, *arguments):
        """As on a disk with room for files of `size` bytes only."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        done = self.train(*arguments, code=3, preexec_fn=limit)
        self.assertRegex(done.stderr, r"\Acohort: Cannot write .*job/.*: .*\n\Z")
        return done.stderr

    def contents(self):
        return {path.name: path.read_bytes() for path in (self.job / "checkpoints").iterdir()}

    def test_where_nobody_can_write(self):
        (self.folder / "file").write_text("in the way")
        for folder in ("file", "file/job", "/proc/job", "/dev/null/job"):
            done = self.run_program("train", *SMALL, "--job-dir", folder, code=3)
            self.assertRegex(done.stderr, rf"\Acohort: cannot make the job directory {folder}: .*\n\Z")

    def test_a_full_disk_costs_no_checkpoint(self):
        self.train(*SMALL, "--train-steps", "4", "--checkpoint-every", "2")
        before, config = self.contents(), (self.job / "config.yaml").read_bytes()
        self.assertEqual(len(before), 2)
        self.assertIn("config.yaml", self.limited(100, "--train-steps", "8"))
        self.assertEqual((self.job / "config.yaml").read_bytes(), config)
        for arguments in (["--checkpoint-every", "2"], ["--checkpoint-every", "0"]):
            self.assertIn("step-", self.limited(65536, "--train-steps", "8", *arguments))
            self.assertEqual(self.contents(), before, "whole, and nothing half written beside them")
        self.train("--train-steps", "8")
        self.assertEqual(self.summary()["start_step"], 4)

    def test_a_new_run_on_a_full_disk_leaves_nothing(self):
        self.limited(100, *SMALL, "--train-steps", "4")
        self.assertFalse(self.job.exists())


class Runs(TrainingTest):
    calm_hash = None

    def calm(self):
        """The weights of the run that nobody disturbs."""
        if Runs.calm_hash is None:
            self.train(*SMALL, "--train-steps", STEPS, job=self.folder / "calm")
            Runs.calm_hash = self.summary(self.folder / "calm")["weights_hash"]
        return Runs.calm_hash

    def start(self, *arguments):
        """A run that has done its first step."""
        process = self.start_program("train", "--job-dir", self.job, *arguments, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step "):
                return process
        self.fail(f"no step was made: {process.stderr.read()}")

    def test_the_summary_has_what_programs_need(self):
        done = self.train(*SMALL, "--train-steps", "5")
        summary = self.summary()
        for key in ("start_step step loss accuracy elapsed_s cpu_s images_per_s median_step_s peak_memory_bytes "
                    "data_s forward_s backward_s update_s checkpoint_s startup_s").split():
            self.assertIsInstance(summary[key], (int, float), key)
        self.assertEqual((summary["start_step"], summary["step"]), (0, 5))
        self.assertRegex(summary["weights_hash"], r"^[0-9a-f]{32}$")
        self.assertIn(summary["weights_hash"], done.stdout)
        self.assertEqual(Path(summary["checkpoint"]), self.checkpoints()[-1])
        self.assertLess(summary["elapsed_s"], LIMIT)
        self.assertGreaterEqual(summary["elapsed_s"], summary["startup_s"])

    def test_the_default_job_directory_is_new_each_time(self):
        for _ in range(2):
            self.run_program("train", *SMALL, "--train-steps", "1")
        names = sorted(path.name for path in (self.folder / "runs").iterdir())
        self.assertEqual(len(names), 2)
        self.assertRegex(names[0], r"^mnist-cnn-\d{8}-1$")
        self.assertRegex(names[1], r"^mnist-cnn-\d{8}-2$")

    def test_eval_agrees_with_the_end_of_training(self):
        self.train(*SMALL, "--train-steps", "10", "--checkpoint-every", "4", "--average-decay", "0.9")
        summary = self.summary()
        text = self.run_program("eval", "--job-dir", self.job, "--threads", "1").stdout
        self.assertIn(f"weights {summary['weights_hash']}\n", text)
        self.assertIn("step 10\n", text)
        self.assertIn(f"80 test samples: loss {summary['test_loss']:.6f}, top-1 {summary['accuracy']:.4f}", text)
        text = self.run_program("eval", "--job-dir", self.job, "--checkpoint", self.checkpoints()[0]).stdout
        self.assertIn("step 4\n", text)
        text = self.run_program("eval", "--job-dir", self.job, "--split", "train").stdout
        self.assertIn("500 train samples", text)

    def test_sigterm_writes_a_checkpoint_and_the_named_command_goes_on(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 75)):
            self.job = self.folder / str(number)
            process = self.start(*SMALL, "--train-steps", str(STEPS))
            process.send_signal(number)
            output, _ = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, code, output)
            summary = self.summary()
            self.assertTrue(summary["interrupted"])
            self.assertIsNone(summary["accuracy"])
            self.assertLess(summary["step"], STEPS)
            self.assertEqual(self.checkpoints()[-1].name, f"step-{summary['step']:010}.safetensors")
            command = re.search(r"go on with: cohort (.*)$", output, re.MULTILINE).group(1).split()
            self.run_program(*command, "--threads", "1")
            resumed = self.summary()
            self.assertEqual(resumed["start_step"], summary["step"])
            self.assertEqual(resumed["step"], STEPS)
            self.assertEqual(resumed["weights_hash"], self.calm())

    def test_no_thread_that_computes_takes_a_signal(self):
        process = self.start(*SMALL, "--train-steps", "1000000", "--checkpoint-every", "5")
        wanted = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)
        takers = 0
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            status = (thread / "status").read_text()
            blocked = int(re.search(r"SigBlk:\s*(\w+)", status).group(1), 16)
            handled = int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)
            self.assertEqual(handled & wanted, 0, "a handler could run on a kernel's stack")
            takers += blocked & wanted != wanted
        self.assertEqual(takers, 1, "the thread that waits for them")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75)

    def test_a_second_signal_leaves_at_once(self):
        # A step of a second or more, so that the first signal still waits for its end.
        process = self.start(*SMALL, "--image-size", "28", "--samples", "4000", "--batch-size", "4000", "--grains", "40")
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 128 + signal.SIGINT)
        self.assertEqual(self.checkpoints(), [])

    def test_a_second_sigusr1_changes_nothing(self):
        process = self.start(*SMALL, "--image-size", "28", "--samples", "4000", "--batch-size", "4000", "--grains", "40")
        time.sleep(0.3)
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
        self.assertEqual(process.wait(LIMIT), 75)
        self.assertEqual(len(self.checkpoints()), 1)

    def test_kills_at_any_moment_cost_nothing_but_time(self):
        arguments = [*SMALL, "--train-steps", str(STEPS), "--checkpoint-every", "2"]
        chance = random.Random(5)
        for _ in range(6):
            process = self.start_program("train", "--job-dir", self.job, *arguments, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE)
            time.sleep(chance.uniform(0.02, 0.4))
            process.kill()
            _, errors = process.communicate(timeout=LIMIT)
            self.assertEqual(errors, b"")
            self.assertIn(process.returncode, (0, -signal.SIGKILL))
        self.train(*arguments)
        self.assertEqual(self.summary()["step"], STEPS)
        self.assertEqual(self.summary()["weights_hash"], self.calm())
        self.assertEqual(len(self.checkpoints()), 3)

    def test_leftover_and_damaged_files_do_no_harm(self):
        self.train(*SMALL, "--train-steps", "40", "--checkpoint-every", "15")
        folder = self.job / "checkpoints"
        (folder / "step-0000000090.safetensors.tmp-1-0").write_bytes(b"half a file")
        (folder / "notes.txt").write_text("mine")
        newest = self.checkpoints()[-1]
        data = bytearray(newest.read_bytes())
        data[-1000] ^= 4
        newest.write_bytes(data)
        done = self.train("--train-steps", STEPS)
        self.assertRegex(done.stderr, r"^warning: .*step-0000000040\.safetensors is damaged.*using the one before")
        self.assertEqual(self.summary()["start_step"], 30)
        self.assertEqual(self.summary()["weights_hash"], self.calm())
        self.assertTrue((folder / "notes.txt").exists())

    def test_a_second_run_in_the_same_job_directory_is_refused(self):
        process = self.start(*SMALL, "--train-steps", "1000000")
        done = self.train(*SMALL, "--train-steps", "1000000", code=2)
        self.assertIn("another run is using", done.stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75)

    def test_another_run_in_an_old_job_directory_is_refused_with_the_difference(self):
        self.train(*SMALL, "--train-steps", "1")
        for change, pattern in ((["--network", "mnist-fc"], r"--network mnist-cnn, not mnist-fc"),
                                (["--batch-size", "80"], r"--batch-size 40, not 80"),
                                (["--seed", "2"], r"--seed 1, not 2")):
            self.assertRegex(self.train(*change, "--train-steps", "2", code=2).stderr, pattern)
        self.assertEqual(self.summary()["step"], 1)

    def test_idle_threads_are_named(self):
        self.assertIn("3 of 11 threads have nothing to do: there are 8 grains",
                      self.train(*SMALL, "--threads", "11", "--train-steps", "1").stdout)

    def test_any_safetensors_reader_opens_a_checkpoint(self):
        self.train(*SMALL, "--train-steps", "6")
        metadata, tensors = read_safetensors(self.checkpoints()[-1])
        self.assertEqual(metadata["cohort.step"], "6")
        self.assertEqual(metadata["cohort.config"], (self.job / "config.yaml").read_text())
        self.assertEqual(metadata["cohort.hash.weights"], self.summary()["weights_hash"])
        shapes = {"conv1.weight": [32, 1, 5, 5], "conv1.bias": [32], "conv2.weight": [64, 32, 5, 5], "conv2.bias": [64],
                  "fc1.weight": [1024, 576], "fc1.bias": [1024], "fc2.weight": [10, 1024], "fc2.bias": [10]}
        for name, shape in shapes.items():
            for slot in ("", "slot.moment1.", "slot.moment2."):
                self.assertEqual(tensors[slot + name][0], shape)
        self.assertEqual(len(tensors), 3 * len(shapes))
        for name, (_, values) in tensors.items():
            self.assertTrue(all(map(math.isfinite, values)), name)
        self.assertTrue(any(tensors["fc2.bias"][1]))
        self.assertGreaterEqual(min(tensors["slot.moment2.conv1.weight"][1]), 0)

    def test_starts_from_any_safetensors_file_by_name(self):
        self.train(*SMALL, "--train-steps", "1", job=self.folder / "source")
        _, tensors = read_safetensors(self.checkpoints(self.folder / "source")[-1])
        given = {name: (shape, [(i % 97) / 1000 for i in range(len(values))])
                 for name, (shape, values) in sorted(tensors.items()) if not name.startswith("slot.")}
        write_safetensors(self.folder / "given.safetensors", given)
        # A learning rate of 0 keeps the weights as they are.
        self.train(*SMALL, "--train-steps", "1", "--optimizer", "sgd", "--lr", "0", "--init-from", "given.safetensors")
        _, kept = read_safetensors(self.checkpoints()[-1])
        for name, (shape, values) in given.items():
            self.assertEqual(kept[name][0], shape)
            self.assertEqual(kept[name][1], struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


if __name__ == "__main__":
    unittest.main()
