#!/usr/bin/env python3
"""records_test.py PROGRAM [unittest options]: metrics.jsonl and event files of runs that are killed, and repeated."""

import json
import re
import signal
import struct
import subprocess
import unittest

from program import LIMIT
from training_run import SMALL, TrainingTest


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def read_records(data):
    """The framed messages of an event file; written from the format's description, not from our reader."""
    def check(part, checksum):
        crc = crc32c(part)
        masked = ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
        assert checksum == struct.pack("<I", masked), "a wrong checksum"
    while len(data) >= 12:
        (length,) = struct.unpack("<Q", data[:8])
        check(data[:8], data[8:12])
        if len(data) < length + 16:
            break  # torn by the end of its process
        check(data[12:12 + length], data[12 + length:16 + length])
        yield data[12:12 + length]
        data = data[length + 16:]


def read_message(data):
    """A protocol buffer's fields: number -> values, bytes where they are not numbers."""
    def varint():
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    fields = {}
    while data:
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}[key & 7] if key & 7 != 2 else varint()
            value, data = data[:length], data[length:]
        fields.setdefault(key >> 3, []).append(value)
    return fields


def tensorboard_steps(folder, tag):
    """The steps at which a run has a point of this name, as TensorBoard shows them: what comes after a restart replaces
    what was there from that step on."""
    steps = []
    for path in sorted(folder.iterdir()):
        events = [read_message(record) for record in read_records(path.read_bytes())]
        assert events[0][3] == [b"brain.Event:2"], path
        for event in events:
            (step,) = event.get(2, [0])
            if 7 in event:
                steps = [earlier for earlier in steps if earlier < step]
            for summary in event.get(5, []):
                values = [read_message(value) for value in read_message(summary)[1]]
                steps += [step for value in values if value[1] == [tag.encode()]]
    return steps


class Records(TrainingTest):
    def metrics(self, job=None):
        """Every line of metrics.jsonl, each a JSON object."""
        text = ((job or self.job) / "metrics.jsonl").read_text()
        self.assertTrue(text.endswith("\n"))
        return [json.loads(line) for line in text.splitlines()]

    def test_the_records_of_a_killed_run_are_those_of_an_unbroken_one(self):
        arguments = [*SMALL, "--train-steps", "300", "--checkpoint-every", "6", "--log-every", "3", "--eval-every", "20"]
        calm = self.folder / "calm"
        self.train(*arguments, job=calm)
        for last in (20, 60, 100):
            process = self.start_program("train", "--job-dir", self.job, *arguments, stdout=subprocess.PIPE, text=True)
            for line in process.stdout:
                found = re.match(r"step (\d+)/", line)
                if found and int(found.group(1)) >= last:
                    break
            process.kill()
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            self.assertGreaterEqual(self.metrics()[-1]["step"], last)
            # As if the end had come in the middle of writing.
            with (self.job / "metrics.jsonl").open("a") as file:
                file.write('{"kind":"train","step":1')
            newest = max((self.job / "events" / "train").iterdir())
            with newest.open("ab") as file:
                file.write(newest.read_bytes()[:30])
        self.train(*arguments)
        self.assertGreater(self.summary()["start_step"], 0)
        self.assertEqual(self.summary()["weights_hash"], self.summary(calm)["weights_hash"])

        train_steps, test_steps = list(range(3, 301, 3)), list(range(20, 301, 20))
        for job in (self.job, calm):
            lines = self.metrics(job)
            self.assertEqual([line["step"] for line in lines if line["kind"] == "train"], train_steps)
            self.assertEqual([line["step"] for line in lines if line["kind"] == "test"], test_steps)
            steps = [line["step"] for line in lines]
            self.assertEqual(steps, sorted(steps))
            self.assertEqual(tensorboard_steps(job / "events" / "train", "loss"), train_steps)
            self.assertEqual(tensorboard_steps(job / "events" / "test", "loss"), test_steps)
        self.assertEqual(len(list((self.job / "events" / "train").iterdir())), 4)
        for line, expected in zip(self.metrics(), self.metrics(calm)):
            for key in ("kind", "step", "epoch", "loss", "accuracy", "lr", "top5", "samples"):
                self.assertEqual(line.get(key), expected.get(key), (line, key))
        self.run_program("report", self.job, calm)

    def test_a_finished_run_records_nothing_again(self):
        self.train(*SMALL, "--train-steps", "6")
        before = (self.job / "metrics.jsonl").read_text()
        self.train(*SMALL, "--train-steps", "6")
        self.assertEqual((self.job / "metrics.jsonl").read_text(), before)
        self.assertEqual(tensorboard_steps(self.job / "events" / "test", "loss"), [6])
        # Killed after its last checkpoint, before the evaluation was recorded.
        lines = before.splitlines(keepends=True)
        self.assertEqual(json.loads(lines[-1])["kind"], "test")
        (self.job / "metrics.jsonl").write_text("".join(lines[:-1]))
        self.train(*SMALL, "--train-steps", "6")
        self.assertEqual([(line["kind"], line["step"]) for line in self.metrics()][-2:], [("train", 6), ("test", 6)])


if __name__ == "__main__":
    unittest.main()
