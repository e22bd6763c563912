#!/usr/bin/env python3
"""setup_test.py PROGRAM [unittest options]: the set-up of those who may install nothing, as one of them."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import LIMIT, ProgramTest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = "bash dirname readlink mkdir sed tail tr grep flock rm touch cat env tee".split()
NOBODY = 65534


class SetUp(ProgramTest):
    """scripts/setup.sh in a tree of its own, with programs of our choice, by a user who is not root."""

    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        shutil.copytree(ROOT / "scripts", self.tree / "scripts")
        (self.tree / "CMakePresets.json").touch()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.add_program("sudo", "exit 1")
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def add_program(self, name, script):
        (self.bin / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
        (self.bin / name).chmod(0o755)

    def shell(self, command, code=0, **variables):
        """What it says of itself, on the standard error."""
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([shutil.which("bash"), "-c", f"set -euo pipefail; source scripts/setup.sh; {command}"], cwd=self.tree,
                              env={"PATH": str(self.bin), "HOME": str(self.folder), **variables}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False, **as_nobody)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def without(self, *packages):
        """All packages are installed but for these."""
        self.add_program("dpkg-query", 'shift 3\nfor name; do case $name in ' + "|".join(packages) +
                         ') ;; *) echo "ii $name" ;; esac; done')

    def test_missing_packages_are_named_with_what_they_are_for(self):
        self.without("libdnnl-dev", "g++", "libgrpc++-dev")
        said = self.shell("needPackages packages.txt", CMAKE_PREFIX_PATH="/opt/libraries", LOADEDMODULES="gcc/12:openmpi/4")
        self.assertEqual(said, "cohort: these Debian packages are missing, and installing them needs root or sudo:\n"
                               "  g++                     compiler, 12.2\n"
                               "  libdnnl-dev             oneDNN: the kernels\n"
                               "  libgrpc++-dev           gRPC: workers and their center\n"
                               "cohort: going on without; CMAKE_PREFIX_PATH is /opt/libraries, loaded modules are gcc/12:openmpi/4\n")
        self.assertEqual(self.shell("needPackages packages.txt"), "", "once")

    def test_nothing_is_said_where_nothing_is_missing(self):
        self.without("none")
        self.assertEqual(self.shell("needPackages packages.txt"), "")

    def test_missing_programs_are_named_at_once(self):
        said = self.shell("build release", code=1)
        for program in ("cmake", "ninja", r"c\+\+"):
            self.assertRegex(said, rf"(?m)^  {program}( |$)")
        for program in ("cmake", "c++"):
            self.add_program(program, "exit 1")
        self.assertRegex(self.shell("build release", code=1), r"start again:\n  ninja\n\Z")

    def test_missing_libraries_are_shown_and_forgotten(self):
        for program in ("ninja", "c++"):
            self.add_program(program, "exit 1")
        listed = "  These libraries are missing:\n\n    Dnnl (oneDNN): Debian's libdnnl-dev\n\n  Install them, and start again.\n"
        self.add_program("cmake", f"touch build/release/CMakeCache.txt build/packages.txt.checked\ncat <<'E'\n-- Found ZLIB\n{listed}-- end\nE\nexit 1")
        said = self.shell("build release", code=1)
        self.assertTrue(said.endswith(f"release.log\n{listed}"), said)
        self.assertFalse((self.tree / "build/release/CMakeCache.txt").exists(), "the next try looks again")
        self.assertFalse((self.tree / "build/packages.txt.checked").exists())


class Configuring(ProgramTest):
    def test_all_missing_libraries_are_told_in_one_place(self):
        missing = ("Dnnl", "yaml-cpp", "GTest")
        done = subprocess.run(["cmake", "-S", ROOT, "-B", self.folder, "-G", "Ninja",
                               *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in missing)],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertNotEqual(done.returncode, 0)
        listed = re.search(r"These libraries are missing:(.*)start again\.", done.stderr, re.DOTALL)
        self.assertIsNotNone(listed, done.stderr)
        for line in ("Dnnl (oneDNN: the kernels): Debian's libdnnl-dev", "yaml-cpp (configurations): Debian's libyaml-cpp-dev",
                     "GTest (the tests; or build with -DCOHORT_TESTS=OFF): Debian's libgtest-dev"):
            self.assertIn(line, " ".join(listed[1].split()))
        self.assertEqual(listed[1].count("Debian's"), len(missing))

    def test_every_library_is_of_a_package_that_is_installed(self):
        packages = re.findall(r"^[^#\s]+", (ROOT / "scripts/packages.txt").read_text(), re.MULTILINE)
        needs = re.findall(r'^ *cohort_need\(\S+ "[^"]*" "([^"]*)"', (ROOT / "cmake/CohortDependencies.cmake").read_text(), re.MULTILINE)
        self.assertGreater(len(needs), 15)
        for package in " and ".join(needs).split(" and "):
            self.assertIn(package, [*packages, "libc6-dev"])


if __name__ == "__main__":
    unittest.main()
