#!/usr/bin/env python3
"""command_line_test.py PROGRAM [unittest options]: drives the built program as its users do."""

import fcntl
import json
import math
import os
import pty
import random
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

PROGRAM = ""
SMALL = ("--network mnist-cnn --dataset synthetic --image-size 12 --samples 500 --test-samples 80 "
         "--batch-size 40 --grains 8 --threads 2").split()
STEPS = 100  # of the runs that are stopped and resumed
LIMIT = 120  # seconds that nothing here takes


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


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="cohort-test-")
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.job = self.folder / "job"

    def run_program(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def train(self, *arguments, job=None, code=0):
        return self.run_program("train", "--job-dir", job or self.job, *arguments, code=code)

    def summary(self, job=None):
        return json.loads(((job or self.job) / "summary.json").read_text())

    def checkpoints(self, job=None):
        return sorted(((job or self.job) / "checkpoints").glob("*.safetensors"))

    def start(self, *arguments):
        """A run that has done its first step."""
        process = subprocess.Popen([PROGRAM, "train", "--job-dir", self.job, *arguments], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        for line in process.stdout:
            if line.startswith("step "):
                return process
        self.fail(f"no step was made: {process.stderr.read()}")

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()


class Words(CommandLine):
    """What the program says, and its exit codes."""

    def test_help_fits_100_columns(self):
        for arguments in (["--help"], ["train", "--help"], ["eval", "--help"], ["describe", "--help"]):
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
        self.assertNotIn("internal error", done.stderr)

    def test_typos_get_a_suggestion(self):
        self.expect_error(2, r"--batchsize; did you mean --batch-size\?", "train", "--batchsize", "3")
        self.expect_error(2, r"--bath-size; did you mean --batch-size\?", "train", "--bath-size=3")
        self.expect_error(2, r"--treads; did you mean --threads\?", "eval", "--job-dir", ".", "--treads", "3")
        self.expect_error(2, r"--quantum; see cohort train --help", "train", "--quantum")
        self.expect_error(2, r"--learning-rat; see|did you mean --lr", "train", "--learning-rat", "1")
        self.expect_error(2, r"'minst' \(did you mean 'mnist'\?\)", "train", "--dataset", "minst")
        self.expect_error(2, r"'trian' is no command: it is train, eval, describe, data, report or study", "trian")
        self.expect_error(2, r"did you mean 'mnist-cnn'\?", "train", "--network", "mnist-cn")
        self.expect_error(2, r"train, eval, describe, data, report or study")

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
                (r"--workers 2", ["--workers", "2"]),
                (r"--lr", ["--lr"]),
                (r"(?i)no-such-folder", ["--dataset", "mnist", "--data-dir", "no-such-folder"]),
                (r"(?i)28", ["--dataset", "fashion-mnist", "--image-size", "30"]),
                (r"matches no|no weight", [*SMALL, "--param-rule", "nothing:lr=2"])):
            with self.subTest(arguments):
                self.expect_error(2, pattern, "train", *arguments)
        self.assertEqual(list(self.folder.glob("runs/*")), [], "a run that cannot begin leaves nothing")
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
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        process = subprocess.Popen([PROGRAM, "train", "--job-dir", self.job, *SMALL, "--train-steps", "60",
                                    "--eval-every", "25"], stdin=subprocess.DEVNULL, stdout=terminal,
                                   env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
        self.addCleanup(self.end, process)
        os.close(terminal)
        output = b""
        while select.select([main], [], [], LIMIT)[0]:
            try:
                part = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            output += part
        self.assertEqual(process.wait(LIMIT), 0)
        text = output.decode().replace("\r\n", "\n")
        live = re.findall(r"\r\x1b\[\?7l(step [^\r\n\x1b]*) \x1b\[J\x1b\[\?7h", text)
        self.assertGreaterEqual(len(live), 2, text)
        self.assertTrue(live[-1].startswith("step 60/60  loss "), live)
        self.assertLess(max(map(len, live)), 50)
        # What stays on the screen: what follows the last carriage return in each line.
        shown = [re.sub(r"\x1b\[[?\d]*[A-Za-z]", "", line).split("\r")[-1] for line in text.split("\n")]
        self.assertEqual(sum(line.startswith("step 25: test loss") for line in shown), 1, shown)
        self.assertEqual(sum(line.startswith("step 60/60") for line in shown), 1, shown)


class Configuration(CommandLine):
    """--config, -o, config.yaml, and the names of older programs."""

    def config(self, text, name="run.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def setting(self, name, job=None):
        text = ((job or self.job) / "config.yaml").read_text()
        return re.search(rf"^{name}: (.*)$", text, re.MULTILINE).group(1)

    def refused(self, pattern, *arguments, code=2):
        done = self.run_program(*arguments, code=code)
        self.assertRegex(done.stderr, rf"\Acohort: .*{pattern}.*\n\Z")
        return done

    def test_every_file_in_configs_is_a_run(self):
        files = sorted((Path(__file__).resolve().parent.parent / "configs").glob("*.yaml"))
        self.assertLessEqual({"mnist-fc", "mnist-cnn", "cifar-cnn", "resnet44", "resnet20", "alexnet", "alexnet-flowers",
                              "googlenet", "vgg11", "vgg16", "overfeat"}, {path.stem for path in files})
        for path in files:
            with self.subTest(path.name):
                text = self.run_program("describe", "--config", path).stdout
                self.assertRegex(text, r"(?m)^[\d,]+ parameters")
                batch = re.search(r"^batch-size: (\d+)", path.read_text(), re.MULTILINE).group(1)
                self.assertIn(f"(batch {batch})", text)

    def test_a_file_then_flags_then_o(self):
        path = self.config("""
            network: mnist-fc
            dataset: synthetic
            image_size: 12
            samples: 200
            test-samples: 20
            batch: {size: 20}
            optimizer: {name: momentum, lr: 0.25, momentum: 0.5}
            train-steps: 9
            keep: 4
            eval_every: 2
            shuffle: off
            """)
        self.train("--config", path, "--keep", "5", "--eval_every=3", "-o", "optimizer.lr=0.125", "-o", "eval-every=4",
                   "--train_steps", "3")
        for name, value in (("network", "mnist-fc"), ("batch-size", "20"), ("optimizer", "momentum"), ("lr", "0.125"),
                            ("momentum", "0.5"), ("keep", "5"), ("eval-every", "4"), ("train-steps", "3"),
                            ("shuffle", "false"), ("histograms", "false")):
            self.assertEqual(self.setting(name), value, name)
        self.assertEqual(self.summary()["step"], 3)
        # A run goes on with the stored configuration below the file.
        self.train("--config", self.config("train-steps: 5\n", "more.yaml"))
        self.assertEqual((self.summary()["start_step"], self.summary()["step"]), (3, 5))
        self.assertEqual(self.setting("lr"), "0.125")
        self.assertRegex(self.train("--config", self.config("seed: 2\n", "other.yaml"), code=2).stderr, "--seed 1, not 2")

    def test_the_saved_configuration_repeats_the_run_bit_by_bit(self):
        first, second, third = (self.folder / name for name in ("first", "second", "third"))
        self.train(*SMALL, "--epochs", "2.4", "--optimizer", "rmsprop", "--momentum", "0.3", "--lr", "0.0007", "--seed", "18446744073709551615",
                   "--param-rule", r".*\.bias:lr=2,decay=0", "--weight-decay", "1e-5", "--schedule", "warmup:5+cosine:40",
                   "--average-decay", "0.9", "--data-dir", "a: \"b\" # c", job=first)
        self.assertEqual(self.summary(first)["step"], 30)
        self.train("--config", first / "config.yaml", job=second)
        self.assertEqual(self.summary(second)["weights_hash"], self.summary(first)["weights_hash"])
        self.assertEqual((second / "config.yaml").read_text(), (first / "config.yaml").read_text())
        self.train("--config", first / "config.yaml", "--threads", "1", "-o", "keep=1", job=third)
        self.assertEqual(self.summary(third)["weights_hash"], self.summary(first)["weights_hash"])
        self.train("--config", first / "config.yaml", "-o", "seed=2", job=self.folder / "other")
        self.assertNotEqual(self.summary(self.folder / "other")["weights_hash"], self.summary(first)["weights_hash"])

    def test_a_run_can_be_repeated_from_the_job_directory_of_a_resumed_one(self):
        self.train(*SMALL, "--train-steps", "10")
        self.train("--train-steps", "20", "--threads", "1")
        self.train("--config", self.job / "config.yaml", job=self.folder / "again")
        self.assertEqual(self.summary(self.folder / "again")["weights_hash"], self.summary()["weights_hash"])

    def test_wrong_files_have_one_sentence_with_their_place(self):
        for text, pattern in (("lr: 1\nbath-size: 3\n", r"run\.yaml:2:1: there is no setting 'bath-size'; did you mean 'batch-size'\?"),
                              ("lr: fast\n", r"run\.yaml:1:5: lr takes a number, not 'fast'"),
                              ("lr: [1]\n", r"run\.yaml:1:5: lr takes one value, not a list"),
                              ("lr: {x: 1}\n", r"run\.yaml:1:5: lr takes one value, not a map"),
                              ("lr: 1\nlr: 2\n", r"run\.yaml:2:1: lr is given a second time"),
                              ("", r"run\.yaml has no settings"),
                              ("lr: [", r"run\.yaml:1:\d+: this is not YAML"),
                              ("workers: 2", r"run\.yaml:1:10: workers 2 is not possible yet"),
                              ("network: mnist-cn", r"did you mean 'mnist-cnn'\?")):
            with self.subTest(text):
                for command in ("train", "describe"):
                    self.refused(pattern, command, "--config", self.config(text))
        (self.folder / "binary.yaml").write_bytes(bytes(range(256)))
        self.refused(r"binary\.yaml is no text", "train", "--config", "binary.yaml")
        self.refused(r"no configuration file absent\.yaml", "train", "--config", "absent.yaml")
        self.refused(r"\. is a folder", "train", "--config", ".")
        self.refused(r"--config", "train", "--config", "run.yaml", "--config", "run.yaml")
        self.refused(r"-o takes KEY=VALUE", "train", "-o", "lr")
        self.refused(r"-o: there is no setting 'lrr'; did you mean 'lr'\?", "train", "-o", "lrr=1")
        self.assertEqual(list(self.folder.glob("runs/*")), [])

    def test_a_file_may_come_through_a_pipe(self):
        done = subprocess.run([PROGRAM, "describe", "--config", "/dev/stdin"], input="network: mnist-fc\n", text=True,
                              capture_output=True, timeout=LIMIT, check=True)
        self.assertIn("79,510 parameters", done.stdout)

    def test_names_of_older_programs_work(self):
        done = self.run_program("train", "--network", "mnist-fc", "--dataset", "fake_data", "--work_dir", self.job, "--batch_num", "4",
                                "--train-batch-size=20", "--learning-rate", "0.01", "--num_intra_threads", "1", "--num-gpus=0",
                                "--checkpoint-num-steps", "2", "--eval-batch-size", "50", "--sync", "--redirect_outerr",
                                "--mode", "1dev", "-o", "samples=100", "-o", "test_samples=10")
        self.assertRegex(done.stdout, r"(?m)^note: --eval-batch-size has no effect: ")
        self.assertRegex(done.stdout, r"(?m)^note: --redirect-outerr has no effect: ")
        for name, value in (("dataset", "synthetic"), ("train-steps", "4"), ("batch-size", "20"), ("lr", "0.01"),
                            ("threads", "1"), ("checkpoint-every", "2")):
            self.assertEqual(self.setting(name), value, name)
        self.assertEqual(len(self.checkpoints()), 2)
        self.run_program("eval", "--job_dir", self.job)
        text = self.run_program("describe", "--num-layers", "20").stdout
        self.assertIn("269,722 parameters", text)
        self.assertNotIn("work-dir", self.run_program("train", "--help").stdout)

    def test_what_older_programs_could_and_this_cannot_has_a_sentence(self):
        for pattern, arguments in ((r"--num-gpus 1 is not possible", ["--num-gpus", "1"]),
                                   (r"--mode 2dev-model is not possible yet", ["--mode", "2dev-model"]),
                                   (r"--sync false is not possible yet", ["--sync=false"]),
                                   (r"--sync-rule EASGD is not possible yet", ["--sync_rule", "EASGD"]),
                                   (r"--eval is a command of its own: cohort eval", ["--eval"]),
                                   (r"--batch-norm-decay 0\.9 is not possible yet: it is 0\.997 in resnet20",
                                    ["--num-layers", "20", "--batch-norm-decay", "0.9"]),
                                   (r"--model-dir b is job-dir b here, but that is a already", ["--work_dir", "a", "--model_dir", "b"]),
                                   (r"'gs://bucket' is not on this machine", ["--data-dir", "gs://bucket"]),
                                   (r"'--job-dir=s3://bucket' is not on this machine", ["--job-dir=s3://bucket"])):
            with self.subTest(arguments):
                self.refused(pattern, "train", *arguments)
        self.refused(r"'gs://bucket' is not on this machine", "eval", "--job-dir", "gs://bucket")
        self.refused(r"--learning-rate; ", "describe", "--learning-rate", "1")


class Disk(CommandLine):
    """Places that cannot be written."""

    def limited(self, size, *arguments):
        """As on a disk with room for files of `size` bytes only."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        done = subprocess.run([PROGRAM, "train", "--job-dir", self.job, *arguments], cwd=self.folder, preexec_fn=limit,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
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


class Runs(CommandLine):
    """Whole runs: records, stops, kills, resumes."""

    calm_hash = None

    def calm(self):
        """The weights of the run that nobody disturbs."""
        if Runs.calm_hash is None:
            self.train(*SMALL, "--train-steps", STEPS, job=self.folder / "calm")
            Runs.calm_hash = self.summary(self.folder / "calm")["weights_hash"]
        return Runs.calm_hash

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

    def test_kills_at_any_moment_cost_nothing_but_time(self):
        arguments = [*SMALL, "--train-steps", str(STEPS), "--checkpoint-every", "2"]
        chance = random.Random(5)
        for _ in range(6):
            process = subprocess.Popen([PROGRAM, "train", "--job-dir", self.job, *arguments], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(self.end, process)
            time.sleep(chance.uniform(0.02, 0.4))
            process.kill()
            _, errors = process.communicate(timeout=LIMIT)
            self.assertEqual(errors, b"")
            self.assertIn(process.returncode, (0, -signal.SIGKILL))
        self.train(*arguments)
        self.assertEqual(self.summary()["step"], STEPS)
        self.assertEqual(self.summary()["weights_hash"], self.calm())
        self.assertEqual(len(self.checkpoints()), 3)

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
            process = self.start(*arguments)
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
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
