"""For the tests that drive the built program: where it is, a folder for each test, processes and terminals.

The file of a test is called with the program as its first argument, and imports this one from its own folder.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

PROGRAM = str(Path(sys.argv.pop(1)).resolve())
LIMIT = 300  # seconds that nothing here takes, however busy the machine is


def is_alive(process):
    """Whether the process of this number is more than its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(variable, value):
    """Numbers of the living processes that were started with this in their environment: a run's, whoever their parent is now."""
    wanted = f"{variable}={value}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0") and is_alive(int(path.parent.name)):
                found.add(int(path.parent.name))
    return found


class ProgramTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="cohort-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def run_program(self, *arguments, code=0, **options):
        """From its start to its end, which must be this exit code."""
        done = subprocess.run([PROGRAM, *map(str, arguments)], **{
            "cwd": self.folder, "stdin": None if "input" in options else subprocess.DEVNULL, "capture_output": True,
            "text": True, "timeout": LIMIT, "check": False, **options})
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("internal error", done.stderr)
        return done

    def start_program(self, *arguments, **options):
        """Goes on while the test does, and is ended with it."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def run_on_terminal(self, *arguments, columns, environment=None):
        """What the live line of a terminal of this width was, time by time, and the lines that stay on the screen."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start_program(*arguments, stdout=theirs,
                                     env={**(environment or os.environ), "TERM": "xterm", "NO_COLOR": "1"})
        os.close(theirs)
        output = b""
        with contextlib.suppress(OSError):  # the other side is closed
            while select.select([ours], [], [], LIMIT)[0] and (part := os.read(ours, 65536)):
                output += part
        self.assertEqual(process.wait(LIMIT), 0)
        text = output.decode().replace("\r\n", "\n")
        live = re.findall(r"\r\x1b\[\?7l([^\r\n\x1b]*) \x1b\[J\x1b\[\?7h", text)
        # What follows the last carriage return in each line.
        shown = [re.sub(r"\x1b\[[?\d]*[A-Za-z]", "", line).split("\r")[-1] for line in text.split("\n")]
        return live, shown

    def wait_for(self, condition, limit=LIMIT):
        give_up = time.monotonic() + limit
        while not condition():
            self.assertLess(time.monotonic(), give_up, "it never happened")
            time.sleep(0.02)

    def reach(self, process, condition):
        """Waits for this to happen while the process lives."""
        def happened():
            if process.poll() is not None:
                self.fail("it ended before that:\n" + "".join(process.communicate()))
            return condition()
        self.wait_for(happened)

    def finish(self, process, code=0, limit=LIMIT):
        output, errors = process.communicate(timeout=limit)
        self.assertEqual(process.returncode, code, output + errors)
        self.assertNotIn("internal error", errors)
        return output, errors


def long(case):
    """Marks tests that take minutes together: only ./cohort test --all runs them."""
    case.is_long = True
    return case


class _Loader(unittest.TestLoader):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def getTestCaseNames(self, case):
        if self.part is not None and getattr(case, "is_long", False) != (self.part == "--long"):
            return []
        return super().getTestCaseNames(case)


def main():
    """unittest.main(), of the long tests alone (--long) or all others (--quick)."""
    parts = [word for word in sys.argv[1:] if word in ("--long", "--quick")]
    for word in parts:
        sys.argv.remove(word)
    unittest.main(module="__main__", testLoader=_Loader(parts[-1] if parts else None))
