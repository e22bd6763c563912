#!/usr/bin/env python3
"""workers_test.py PROGRAM [unittest options]: several workers by MPI: the same bits for any number of them, through kills."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from unittest import mock

from program import LIMIT, PROGRAM, is_alive, long, main
from training_run import SMALL as SMALL_WITH_THREADS, TrainingTest

SMALL = SMALL_WITH_THREADS[:SMALL_WITH_THREADS.index("--threads")]
# Long enough to be disturbed several times.
LONG = [*SMALL, "--train-steps", "400", "--checkpoint-every", "10", "--stall-timeout", "3"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def write_pictures(folder, classes, each):
    """PNG files of 12 x 12 grey pixels, a folder for each class."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    for label in range(classes):
        (folder / str(label)).mkdir(parents=True)
        for i in range(each):
            rows = b"".join(b"\0" + bytes((label * 100 + i + x * y) % 256 for x in range(12)) for y in range(12))
            (folder / str(label) / f"{i}.png").write_bytes(
                b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 12, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Workers(TrainingTest):
    calm_hash = None

    def calm(self):
        """The weights of the long run on one worker that nobody disturbs."""
        if Workers.calm_hash is None:
            self.train(*LONG, job=self.folder / "calm")
            Workers.calm_hash = self.summary(self.folder / "calm")["weights_hash"]
        return Workers.calm_hash

    def start(self, *arguments, **options):
        return self.start_program("train", "--job-dir", self.job, *arguments, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, **options)

    def processes(self, job=None):
        """Of each worker's last start, by worker."""
        found = {}
        for path in ((job or self.job) / "logs").glob("worker-*.txt"):
            numbers = re.findall(r", process (\d+):", path.read_text())
            if numbers:
                found[int(path.stem.split("-")[1])] = int(numbers[-1])
        return found

    def newest(self):
        return max((int(path.stem.split("-")[1]) for path in self.checkpoints()), default=0)

    def finish(self, process, code=0):
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, output + errors)
        return output, errors


class SameBits(Workers):
    def hashes(self, counts, *arguments):
        """By number of workers; the checkpoints must be the same files too."""
        found = {}
        files = set()
        for count in counts:
            job = self.folder / f"with-{count}"
            shutil.rmtree(job, ignore_errors=True)
            self.train(*arguments, "--workers", count, job=job)
            summary = self.summary(job)
            found[count] = (summary["weights_hash"], summary["loss"], summary["test_loss"], summary["accuracy"])
            files.add(re.sub(rb"(workers|threads): \d+", rb"", self.checkpoints(job)[-1].read_bytes())[-100000:])
        self.assertEqual(len(files), 1)
        return found

    def test_networks_and_optimizers(self):
        cases = (
            ("mnist-cnn --image-size 12", "momentum", (1, 2, 3, 4, 5, 8)),
            ("resnet20 --image-size 16 --average-decay 0.9", "adam", (1, 3, 8)),
            ("alexnet --image-size 67 --channels 3", "adagrad", (1, 2, 5)),
        )
        for network, optimizer, counts in cases:
            with self.subTest(network):
                found = self.hashes(counts, *f"--network {network} --optimizer {optimizer} --lr 0.001 --dataset synthetic "
                                    "--samples 64 --test-samples 20 --batch-size 16 --grains 8 --train-steps 4 "
                                    "--eval-every 2 --no-pin".split())
                self.assertEqual(len(set(found.values())), 1, found)

    def test_any_lanes_and_other_seeds_differ(self):
        run = [*SMALL, "--train-steps", "6"]
        expected = self.hashes((1,), *run, "--threads", "1")[1]
        self.assertEqual(self.hashes((2,), *run, "--threads", "3")[2], expected)
        self.assertEqual(self.hashes((3,), *run, "--threads", "2")[3], expected)
        self.assertNotEqual(self.hashes((2,), *run, "--seed", "7")[2], expected)

    def test_resuming_with_other_numbers(self):
        run = [*SMALL, "--optimizer", "adam", "--average-decay", "0.9"]
        self.train(*run, "--train-steps", "12", job=self.folder / "calm")
        for count, steps in ((4, 5), (3, 9), (1, 12)):
            self.train(*run, "--train-steps", steps, "--workers", count)
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])
        self.assertEqual(self.summary()["accuracy"], self.summary(self.folder / "calm")["accuracy"])
        steps = [json.loads(line)["step"] for line in (self.job / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, sorted(steps))

    def test_under_a_foreign_mpirun(self):
        run = [*SMALL, "--train-steps", "6"]
        self.train(*run, job=self.folder / "calm")
        done = subprocess.run([*MPIRUN, "-np", "3", PROGRAM, "train", "--job-dir", self.job, *run], cwd=self.folder,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])
        self.assertEqual(len(list((self.job / "logs").glob("worker-*.txt"))), 3)

    def test_each_worker_has_a_log_with_steps(self):
        self.train(*SMALL, "--train-steps", "10", "--log-every", "5", "--workers", "2")
        for worker in (0, 1):
            lines = (self.job / "logs" / f"worker-{worker}.txt").read_text().splitlines()
            self.assertGreaterEqual(len(lines), 3)
            for line in lines:
                self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d step \d+: ")
            self.assertTrue(any("step 10: loss" in line for line in lines), lines)


class OwnWeights(Workers):
    """Rules under which workers step alone for a while."""

    def test_averaging_after_every_step_is_bulk_synchronous_for_sgd(self):
        run = [*SMALL, "--optimizer", "sgd", "--lr", "0.05", "--train-steps", "10"]
        self.train(*run, job=self.folder / "calm")
        self.train(*run, "--workers", "2", "--sync", "local")
        here, there = self.summary(), self.summary(self.folder / "calm")
        self.assertNotEqual(here["weights_hash"], there["weights_hash"])
        self.assertAlmostEqual(here["loss"], there["loss"], delta=1e-5)

    def test_stopped_and_resumed_they_end_the_same(self):
        for rule in (["local", "--avg-freq", "4"], ["diloco", "--inner-steps", "4"]):
            with self.subTest(rule):
                run = [*SMALL, "--optimizer", "momentum", "--lr", "0.01", "--workers", "2", "--sync", *rule]
                for job in ("calm", "broken"):
                    shutil.rmtree(self.folder / job, ignore_errors=True)
                self.train(*run, "--train-steps", "18", job=self.folder / "calm")
                # A checkpoint at step 6 is one at step 8: then all have the same weights.
                self.train(*run, "--train-steps", "18", "--checkpoint-every", "6", "--max-restarts", "0", "--keep", "9",
                           job=self.folder / "broken", code=4,
                           env={**os.environ, "COHORT_CRASH_AT": "renamed.safetensors:2", "COHORT_CRASH_WORKER": "0"})
                steps = [int(path.stem.split("-")[1]) for path in self.checkpoints(self.folder / "broken")]
                self.assertEqual(steps, [8, 12])
                self.train(*run, "--train-steps", "18", job=self.folder / "broken")
                self.assertEqual(self.summary(self.folder / "broken")["start_step"], 12)
                self.assertEqual(self.summary(self.folder / "broken")["weights_hash"],
                                 self.summary(self.folder / "calm")["weights_hash"])
                # With other workers it goes on too, though not to the same weights.
                self.train(*run[:-len(rule) - 2 - 1], "4", "--sync", *rule, "--train-steps", "20",
                           job=self.folder / "broken")

    def test_what_cannot_be_is_refused(self):
        self.assertIn("3 workers; --workers 1, 2, 4, 8 would do",
                      self.train(*SMALL, "--sync", "local", "--workers", "3", code=2).stderr)
        self.assertIn("--average-decay", self.train(*SMALL, "--sync", "local", "--average-decay", "0.9", code=2).stderr)
        self.assertIn("bsp, local, diloco", self.train(*SMALL, "--sync", "often", code=2).stderr)

    def test_half_the_bytes(self):
        run = [*SMALL, "--optimizer", "sgd", "--lr", "0.05", "--train-steps", "3"]
        self.train(*run, job=self.folder / "calm")
        done = self.train(*run, "--workers", "2", "--wire", "fp16")
        self.assertIn("note: with --wire fp16 the weights depend on the number of workers", done.stdout)
        here, there = self.summary(), self.summary(self.folder / "calm")
        self.assertNotEqual(here["weights_hash"], there["weights_hash"])
        self.assertAlmostEqual(here["loss"], there["loss"], delta=1e-3)


class Receipts(Workers):
    def test_runs_are_compared(self):
        run = [*SMALL, "--receipt-every", "2", "--trace"]
        for job, more in (("a", ["--train-steps", "10"]), ("b", ["--train-steps", "10", "--workers", "3"]),
                          ("c", ["--train-steps", "4"])):
            self.train(*run, *more, job=self.folder / job)
        self.assertEqual(self.run_program("verify", "a", "b").stdout, "equal: 5 receipts, of steps 2 to 10\n")
        # Goes on with another learning rate: the first layer shows it.
        self.train(*run, "--train-steps", "10", "--lr", "0.1", job=self.folder / "c")
        self.assertRegex(self.run_program("verify", "a", "c", code=5).stdout,
                         r"\Adifferent from step 6 on: the weights differ, first in conv1\.(weight|bias)\n\Z")
        self.assertIn("no receipt.jsonl", self.run_program("verify", "a", "none", code=2).stderr)
        self.assertIn("two folders", self.run_program("verify", "a", code=2).stderr)

    def test_a_replay_of_bits_that_depend_on_the_workers(self):
        for rule in (["--wire", "fp16"], ["--sync", "local", "--avg-freq", "2"]):
            with self.subTest(rule):
                shutil.rmtree(self.job, ignore_errors=True)
                self.train(*SMALL, "--train-steps", "12", "--checkpoint-every", "4", "--receipt-every", "2", "--workers", "2", *rule)
                self.assertIn("equal: ", self.run_program("verify", "job", "--replay", "4:12").stdout)
                refused = self.run_program("verify", "job", "--replay", "4:12", "--workers", "1", code=2).stderr
                self.assertIn("divided as data over 2 workers", refused)

    def test_a_replay_with_other_workers(self):
        self.train(*SMALL, "--receipt-every", "2", "--train-steps", "20", "--checkpoint-every", "10", "--workers", "2")
        self.assertEqual(self.run_program("verify", "job", "--replay", "10:20", "--workers", "3").stdout,
                         "equal: 5 receipts, of steps 12 to 20\n")
        self.assertIn("it has those of 10, 20", self.run_program("verify", "job", "--replay", "5:9", code=2).stderr)
        self.assertIn("FROM:TO", self.run_program("verify", "job", "--replay", "20:10", code=2).stderr)
        lines = (self.job / "receipt.jsonl").read_text().splitlines(keepends=True)
        receipt = json.loads(lines[7])
        receipt["weights"] = "0" * 32
        (self.job / "receipt.jsonl").write_text("".join([*lines[:7], json.dumps(receipt) + "\n", *lines[8:]]))
        self.assertIn("different from step 16 on", self.run_program("verify", "job", "--replay", "10:20", code=5).stdout)
        self.assertEqual([path.name for path in self.folder.glob("replay-*")], [])


class Refusals(Workers):
    def test_more_workers_than_grains(self):
        done = self.train(*SMALL, "--workers", "9", code=2)
        self.assertRegex(done.stderr, r"9 workers need a grain each.*--workers 1 to 8 would do, or --grains 10")
        self.assertFalse(self.job.exists())

    def test_batch_per_worker(self):
        self.train(*SMALL, "--train-steps", "4", job=self.folder / "calm")
        without = [word for word in SMALL if word not in ("--batch-size", "40")]
        self.train(*without, "--batch-per-worker", "20", "--workers", "2", "--train-steps", "4")
        self.assertEqual(self.summary()["weights_hash"], self.summary(self.folder / "calm")["weights_hash"])
        done = self.train(*SMALL, "--batch-per-worker", "30", "--workers", "2", job=self.folder / "other", code=2)
        self.assertIn("a batch of 60, not 40", done.stderr)

    def test_what_only_a_supervisor_does_is_noted_without_one(self):
        done = self.train(*SMALL, "--train-steps", "2", "--elastic", "--chaos", "3")
        self.assertEqual(re.findall(r"^note: (\S+) has no effect here", done.stdout, re.M), ["chaos", "elastic"])
        self.assertNotIn("chaos: 3", (self.job / "config.yaml").read_text(), "it is no part of the run")

    def test_what_no_start_can_mend_is_said_once(self):
        done = self.train(*SMALL, "--workers", "2", "--dataset", "mnist", "--data-dir", self.folder / "none", code=2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("none", done.stderr)
        done = self.train(*SMALL, "--workers", "2", code=2, env={**os.environ, "PATH": str(self.folder)})
        self.assertIn("install the package openmpi-bin", done.stderr)

    def test_workers_that_were_told_different_things(self):
        common = [PROGRAM, "train", "--job-dir", str(self.job), *SMALL, "--train-steps", "3"]
        done = subprocess.run([*MPIRUN, "-np", "1", *common, ":", "-np", "1", *common, "--lr", "0.5"], cwd=self.folder,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"worker 1 has 'lr: 0\.5' where worker 0 has 'lr: ")

    def test_a_job_directory_that_is_not_shared(self):
        self.job.mkdir()
        common = [PROGRAM, "train", "--job-dir", str(self.job), *SMALL, "--train-steps", "3"]
        apart = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(self.job)]
        done = subprocess.run([*MPIRUN, "-np", "1", *common, ":", "-np", "1", *apart, *common], cwd=self.folder,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"the job directory .* of worker 1 on .* is not the one of worker 0; give one that all share")

    def test_a_binding_that_is_narrower_than_the_lanes(self):
        bound = [word if word != "none" else "core:overload-allowed" for word in MPIRUN]
        done = subprocess.run([*bound, "-np", "2", PROGRAM, "train", "--job-dir", self.job, *SMALL, "--train-steps", "3",
                               "--threads", "3"], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"mpirun binds worker 0 to \d+ cores?, too few for its 3 lanes; give mpirun --bind-to none")

    def test_a_full_disk(self):
        self.job.mkdir()
        small = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                 'mount -t tmpfs -o size=300k none "$0" && "$@"; code=$?; ls "$0/checkpoints"; exit $code', str(self.job)]
        if subprocess.run([*small, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        done = subprocess.run([*small, PROGRAM, "train", "--job-dir", self.job, *SMALL, "--train-steps", "30",
                               "--checkpoint-every", "5", "--workers", "2", "--max-restarts", "0"],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"worker \d failed after step \d+: Cannot (write|bring to the disk) .*checkpoints/step-.*: No space left on device; given up")
        # What was written before is whole, what failed is gone.
        self.assertNotIn(".tmp-", done.stdout)


class Disturbed(Workers):
    """Whatever is done to a run, no process and no shared memory of it is left."""
    def setUp(self):
        super().setUp()
        memory = tempfile.TemporaryDirectory(prefix="cohort-test-", dir="/dev/shm")
        self.addCleanup(memory.cleanup)
        self.memory = memory.name  # of this test's workers alone
        variables = mock.patch.dict(os.environ, {"OMPI_MCA_btl_vader_backing_directory": self.memory})
        variables.start()
        self.addCleanup(variables.stop)

    def tearDown(self):
        self.wait_for(lambda: not any(is_alive(process) for process in self.processes().values()))
        self.assertEqual(os.listdir(self.memory), [])


@long
class Kills(Disturbed):
    def test_a_killed_worker_is_named_and_the_run_goes_on(self):
        process = self.start(*LONG, "--workers", "3")
        self.wait_for(lambda: self.newest() >= 50)
        os.kill(self.processes()[2], signal.SIGKILL)
        output, errors = self.finish(process)
        self.assertRegex(errors, r"warning: worker 2 was ended by signal 9 \(Killed\) after step \d+; "
                                 r"starting 3 workers again from the checkpoint of step \d+")
        self.assertRegex(output, r"resuming at step \d+")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_frozen_worker_is_found(self):
        process = self.start(*LONG, "--workers", "3")
        self.wait_for(lambda: self.newest() >= 30)
        os.kill(self.processes()[1], signal.SIGSTOP)
        _, errors = self.finish(process)
        self.assertRegex(errors, r"worker 1 gave no sign of life for 3 s: it was [\w ]+ after step \d+; "
                                 r"worker \d(, worker \d)? waits? for it; starting 3 workers again")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_an_endless_read_is_found(self):
        """A picture that becomes a pipe which nobody writes to: the worker that opens it stands still."""
        write_pictures(self.folder / "pictures", classes=2, each=20)
        run = ["--network", "mnist-cnn", "--dataset", "folder", "--data-dir", self.folder / "pictures", "--image-size", "12",
               "--test-split", "4", "--batch-size", "8", "--grains", "8", "--train-steps", "4000", "--checkpoint-every", "5",
               "--stall-timeout", "3", "--data-threads", "0"]
        process = self.start(*run, "--workers", "2")
        self.wait_for(lambda: self.newest() >= 5)
        victim = self.folder / "pictures" / "1" / "7.png"
        picture = victim.read_bytes()
        os.mkfifo(self.folder / "pipe")
        os.replace(self.folder / "pipe", victim)
        said = []
        while not any("did not move" in line for line in said):
            said.append(process.stderr.readline())
            self.assertTrue(said[-1], said)
        (self.folder / "whole.png").write_bytes(picture)
        os.replace(self.folder / "whole.png", victim)
        self.assertRegex(said[-1], r"worker [01] did not move for 3 s: it was reading samples after step \d+; "
                                   r"worker [01] waits for it; starting 2 workers again")
        newest = self.newest()
        self.wait_for(lambda: self.newest() > newest + 5)
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=75)

    def test_elastic_goes_on_with_fewer(self):
        without = [word for word in LONG if word not in ("--batch-size", "40")]
        for workers, fewer, run in ((3, 2, LONG), (2, 1, [*without, "--batch-per-worker", "20"]),
                                    (4, 2, [*LONG, "--sync", "local"])):
            with self.subTest(run):
                shutil.rmtree(self.job, ignore_errors=True)
                process = self.start(*run, "--workers", workers, "--elastic")
                self.wait_for(lambda: self.newest() >= 50)
                os.kill(self.processes()[0], signal.SIGKILL)
                _, errors = self.finish(process)
                self.assertIn(f"starting {fewer} worker{'s' * (fewer > 1)} again", errors)
                self.assertEqual(len(self.summary()["workers"]), fewer)
                if "local" not in run:
                    self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_worker_that_is_killed_while_it_starts_again(self):
        process = self.start(*LONG, "--workers", "2", "--max-restarts", "2")
        self.wait_for(lambda: self.newest() >= 30)
        before = self.started(process)
        os.kill(self.processes()[0], signal.SIGKILL)
        self.wait_for(lambda: self.started(process) - before)
        os.kill((self.started(process) - before).pop(), signal.SIGKILL)
        _, errors = self.finish(process)
        self.assertEqual(errors.count("starting 2 workers again"), 2, errors)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def started(self, supervisor):
        """Its workers, whether they have said so already or not."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            is_ours = words[0] == str(PROGRAM).encode() and str(self.job).encode() in words
            # The supervisor, and its child that is about to become mpirun, are none.
            if is_ours and supervisor.pid not in (int(path.parent.name), parent):
                found.add(int(path.parent.name))
        return found

    def test_a_signal_to_all_processes_at_once(self):
        process = self.start(*LONG, "--workers", "2")
        self.wait_for(lambda: self.newest() >= 30)
        for number in [*self.processes().values(), process.pid]:
            os.kill(number, signal.SIGUSR1)
        self.finish(process, code=75)
        self.train(*LONG, "--workers", "2")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_the_supervisor_stops_by_signals_and_goes_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            process = self.start(*LONG, "--workers", "2")
            before = self.newest()
            self.wait_for(lambda: self.newest() >= before + 40)
            process.send_signal(number)
            output, _ = self.finish(process, code=75)
            self.assertIn("stopped by a signal", output)
        self.train(*LONG, "--workers", "3")
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_usr1_to_a_foreign_mpirun(self):
        process = subprocess.Popen([*MPIRUN, "-np", "2", PROGRAM, "train", "--job-dir", self.job, *LONG], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.wait_for(lambda: self.newest() >= 40)
        process.send_signal(signal.SIGUSR1)
        self.finish(process, code=75)
        self.train(*LONG)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_a_killed_supervisor_leaves_nothing_behind(self):
        process = self.start(*LONG, "--workers", "3")
        self.wait_for(lambda: self.newest() >= 50)
        workers = self.processes()
        process.kill()
        process.communicate(timeout=LIMIT)
        # The same command at once: it waits for what is still ending.
        output = self.train(*LONG, "--workers", "3").stdout
        self.assertRegex(output, r"resuming at step \d+")
        self.assertFalse([worker for worker in workers.values() if is_alive(worker)])
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_too_many_failures_end_the_run(self):
        process = self.start(*SMALL, "--train-steps", "100000", "--checkpoint-every", "0", "--workers", "2",
                             "--max-restarts", "2")
        seen = set()
        for _ in range(3):
            self.wait_for(lambda: 1 in self.processes() and self.processes()[1] not in seen)
            victim = self.processes()[1]
            seen.add(victim)
            time.sleep(0.5)
            os.kill(victim, signal.SIGKILL)
        _, errors = self.finish(process, code=4)
        self.assertIn("given up after 2 restarts without a new checkpoint", errors)
        self.assertEqual(errors.count("starting 2 workers again"), 2)

    def test_dying_anywhere_in_a_checkpoint(self):
        for place in ("checkpoint-part:7", "checkpoint-parts:3", "checkpoint-header:3", "synced.safetensors:3",
                      "renamed.safetensors:3"):
            for worker in ("0", "1") if place.startswith("checkpoint-part") else ("0",):
                with self.subTest(place, worker=worker):
                    shutil.rmtree(self.job, ignore_errors=True)
                    done = self.train(*SMALL, "--train-steps", "40", "--checkpoint-every", "5", "--workers", "2",
                                      "--max-restarts", "0", code=4,
                                      env={**os.environ, "COHORT_CRASH_AT": place, "COHORT_CRASH_WORKER": worker})
                    self.assertRegex(done.stderr, rf"worker {worker} was ended by signal 9")
                    self.assertIn(self.newest(), (5, 10, 15))
                    self.train(*SMALL, "--train-steps", "40", "--checkpoint-every", "5", "--workers", "2")
                    self.train(*SMALL, "--train-steps", "40", job=self.folder / "calm")
                    self.assertEqual(self.summary()["weights_hash"],
                                     self.summary(self.folder / "calm")["weights_hash"])
                    self.assertEqual([p for p in (self.job / "checkpoints").iterdir() if ".tmp-" in p.name], [])


if __name__ == "__main__":
    main()
