#!/usr/bin/env python3
"""clang-tidy over all that is compiled: tidy.py BUILD_FOLDER. Prints findings; exit 1 where there is one.

What was clean is remembered by its content (the preprocessed text, the checks, the version of clang-tidy) in
XDG_CACHE_HOME/cohort/tidy, so that only what has changed is looked at again; NOLINT comments count as content.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

# In tests, products of small constants do not overflow, a copy more costs nothing, and some functions of the C library
# are defined anew. The analyzer takes most of the time, and the sanitizers run what it would look at.
NOT_IN_TESTS = ("bugprone-implicit-widening-of-multiplication-result", "performance-inefficient-vector-operation",
                "performance-unnecessary-value-param", "readability-inconsistent-declaration-parameter-name",
                "clang-analyzer-*")


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "cohort/tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def preprocessed(entry):
    """What clang sees of the file, comments and all, without the places it comes from; None where it cannot say."""
    words = shlex.split(entry["command"])
    words = [word for word in words if not word.endswith("ccache")]
    kept, skip = [], False
    for word in words[1:]:
        if skip or word in ("-c", "-MD", "-Werror"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            kept.append(word)
    done = subprocess.run(["clang++", *kept, "-E", "-P", "-CC", "-w", "-Wno-unknown-warning-option"], cwd=entry["directory"],
                          capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def main():
    build = Path(sys.argv[1]).resolve()
    root = build.parent.parent
    entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())
               if not entry["file"].endswith(".pb.cc")}
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    configuration = (root / ".clang-tidy").read_bytes()
    folder = cache_folder()

    def look(path):
        checks = ["--checks=" + ",".join("-" + check for check in NOT_IN_TESTS)] if path.endswith("_test.cpp") else []
        text = preprocessed(entries[path])
        stamp = None
        if text is not None:
            key = hashlib.sha256(b"\0".join([version, configuration, " ".join(checks).encode(), text])).hexdigest()
            stamp = folder / key
            if stamp.exists():
                return ""
        done = subprocess.run(["clang-tidy", "--quiet", "-p", str(build), *checks, path], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            if stamp:
                stamp.touch()
            return ""
        return done.stdout + re.sub(r"^.*warnings? generated.*\n?", "", done.stderr, flags=re.M)

    clean = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(look, sorted(entries)):
            if findings:
                clean = False
                print(findings, flush=True)
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
