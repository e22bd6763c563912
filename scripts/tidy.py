#!/usr/bin/env python3
"""clang-tidy over all that is compiled: tidy.py BUILD_FOLDER. Prints findings; exit 1 where there is one.
tidy.py --self-test: plants what a cache could overlook, and expects to see it.

What was clean is remembered in XDG_CACHE_HOME/cohort/tidy, so that only what has changed is looked at again. Its key is all that
clang-tidy reads: the bytes of the source and of every header of the project that it includes, in their order, all others by
their places and times, the compiler's options, the checks, the version of clang-tidy. (The preprocessed text would not do:
an include that stands there twice, or a macro that is not used, is not in it.)
"""
import concurrent.futures
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

# Of tests, what neither running them under the sanitizers nor the compiler would find.
CHECKS_OF_TESTS = ("bugprone-copy-constructor-init", "bugprone-dangling-handle", "bugprone-infinite-loop",
                   "bugprone-sizeof-expression", "bugprone-unused-raii", "bugprone-unused-return-value",
                   "bugprone-use-after-move", "cppcoreguidelines-slicing", "google-explicit-constructor",
                   "misc-redundant-expression", "misc-unused-alias-decls", "modernize-use-override",
                   "performance-for-range-copy", "readability-duplicate-include", "readability-identifier-naming")


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "cohort/tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_of_tests(path):
    return re.search(r"_test(_\d+)?\.cpp$", path) is not None


def apart(entry, root):
    """A file that only includes sources, to compile them together, as its sources: each with its options. Others as they are, and
    those of tests: what is looked for in them does not depend on what stands before them, and most of the time goes into headers."""
    file = Path(entry["file"])
    if file.parent.name != "batches" or is_of_tests(entry["file"]):
        return [entry]
    sources = [str(root / "src" / name) for name in re.findall(r'^#include "(.*)"$', file.read_text(), re.M)]
    return [{**entry, "file": source, "command": entry["command"].replace(entry["file"], source)} for source in sources]


def options_of(entry):
    """The compiler's options that matter to what it reads."""
    words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    kept, skip = [], False
    for word in words[1:]:
        if skip or word in ("-c", "-MD", "-Werror"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            kept.append(word)
    return kept


def includes_of(entry):
    """All files that are read for this one, the first being itself; None where clang cannot say."""
    done = subprocess.run(["clang++", *options_of(entry), "-M", "-w", "-Wno-unknown-warning-option"], cwd=entry["directory"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    words = shlex.split(done.stdout.replace("\\\n", " ").split(":", 1)[1])
    return [Path(entry["directory"], word).resolve() for word in words]


def key_of(entry, root, build, more):
    """A hash of all that clang-tidy would read; None where clang cannot say what that is. Nothing in it depends on where the
    project lies."""
    files = includes_of(entry)
    if files is None:
        return None

    def placed(text):
        return text.replace(str(build), "<build>").replace(str(root), "<root>")
    key = hashlib.sha256()
    for part in (*more, *(placed(option).encode() for option in options_of(entry))):
        key.update(hashlib.sha256(part).digest())
    for file in files:
        if file.is_relative_to(root):
            content = file.read_bytes()
        else:
            status = file.stat()
            content = f"{status.st_size} {status.st_mtime_ns}".encode()
        key.update(hashlib.sha256(placed(str(file)).encode()).digest())
        key.update(hashlib.sha256(content).digest())
    return key.hexdigest()


def look_at(build, root, entries):
    """Prints findings; whether there were none."""
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    configuration = (root / ".clang-tidy").read_bytes()
    folder = cache_folder()
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps(list(entries.values())))

    def look(path):
        checks = ["--checks=" + ",".join(("-*", *CHECKS_OF_TESTS))] if is_of_tests(path) else []
        key = key_of(entries[path], root, build, [version, configuration, " ".join(checks).encode()])
        if key and (folder / key).exists():
            return ""
        done = subprocess.run(["clang-tidy", "--quiet", "-p", str(database), *checks, path], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            if key:
                (folder / key).touch()
            return ""
        return done.stdout + re.sub(r"^.*warnings? generated.*\n?", "", done.stderr, flags=re.M)

    clean = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(look, sorted(entries)):
            if findings:
                clean = False
                print(findings, flush=True)
    return clean


def self_test():
    """A small project that is clean and remembered; then each change must be seen, and its repair found in the cache."""
    configuration = "Checks: '-*,readability-duplicate-include,modernize-deprecated-headers,bugprone-macro-parentheses," \
                    "misc-unused-using-decls'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '/src/'\n"
    good = {"src/a.cpp": '#include <string>\n#include "b.h"\nstd::string name() { return kName; }\n',
            "src/b.h": "#pragma once\ninline constexpr const char* kName = \"b\";\n"}
    plants = {"an include that is there twice": ("src/a.cpp", "#include <string>\n" + good["src/a.cpp"]),
              "a deprecated header": ("src/a.cpp", "#include <string.h>\n" + good["src/a.cpp"]),
              "a bad macro that nobody uses": ("src/b.h", good["src/b.h"] + "#define TWICE(x) 2 * x\n"),
              "a deprecated header in a header": ("src/b.h", "#include <string.h>\n" + good["src/b.h"])}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project").resolve()
        build = root / "build/release"
        for place in (root / "src", build):
            place.mkdir(parents=True)
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        source = str(root / "src/a.cpp")
        batch = build / "batches/a_0.cpp"
        batch.parent.mkdir()
        batch.write_text('#include "a.cpp"\n')
        together = {"directory": str(build), "file": str(batch),
                    "command": f"ccache c++ -I{root}/src -std=c++20 -MD -MT a.o -MF a.d -o a.o -c {batch}"}

        def clean(extra=""):
            known = {**together, "command": together["command"].replace("-std", extra + " -std")}
            with contextlib.redirect_stdout(io.StringIO()):
                return look_at(build, root, {source: entry for entry in apart(known, root)})

        def require(fact, otherwise):
            if not fact:
                sys.exit("tidy.py: " + otherwise)

        (root / ".clang-tidy").write_text(configuration)
        for path, text in good.items():
            (root / path).write_text(text)
        require(clean() and clean(), "a clean file is not clean")
        require(len(list(cache_folder().iterdir())) == 1, "what was clean is not remembered once")
        for what, (path, text) in plants.items():
            (root / path).write_text(text)
            require(not clean(), f"{what} is not seen")
            require(not clean(), f"{what} is remembered as clean")
            (root / path).write_text(good[path])
            require(clean(), f"without {what} the file is not clean")
        require(clean("-DOTHER"), "another option is not clean")
        require(len(list(cache_folder().iterdir())) == 2, "the compiler's options are not part of the key")
        batch_of_tests = build / "batches/a_test_0.cpp"
        batch_of_tests.write_text('#include "a_test.cpp"\n')
        known = {key: value.replace(str(batch), str(batch_of_tests)) for key, value in together.items()}
        for text, is_clean in ((good["src/a.cpp"], True), (plants["an include that is there twice"][1], False)):
            (root / "src/a_test.cpp").write_text(text)
            with contextlib.redirect_stdout(io.StringIO()):
                seen = look_at(build, root, {entry["file"]: entry for entry in apart(known, root)})
            require(seen == is_clean, "tests that are compiled together are not looked at")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    build = Path(sys.argv[1]).resolve()
    entries = {entry["file"]: entry for together in json.loads((build / "compile_commands.json").read_text())
               for entry in apart(together, build.parent.parent) if not entry["file"].endswith(".pb.cc")}
    sys.exit(0 if look_at(build, build.parent.parent, entries) else 1)


if __name__ == "__main__":
    main()
