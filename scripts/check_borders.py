#!/usr/bin/env python3
"""Checks the borders between the modules under src/ from their #include lines.

  check_borders.py [SOURCE_FOLDER]   prints each violation as FILE:LINE: sentence; exit 1 where there is one
  check_borders.py --self-test       makes a tree with one violation of each kind and expects each to be found

A header is public, and installed, unless a comment in it says "Private to MODULE." or "For tests only". Public
headers may include neither such headers nor third parties'; a private one is its own module's, and those for tests
(and all in tests/) are for *_test.cpp files and each other. No two headers define a type of the same name.
"""
import re
import sys
import tempfile
from pathlib import Path

# Module -> what it may include besides itself and base. A row may name only rows above it: no cycles.
MAY_USE = {
    "base": set(),
    "graph": set(),
    "data": set(),
    "optim": set(),
    "cluster": set(),
    "report": set(),
    "comm": set(),
    "center": {"optim"},
    "fetch": {"data"},
    "models": {"graph"},
    "parallel": {"graph"},
    "sync": {"optim", "comm", "center"},
    "planner": {"graph", "cluster", "models", "parallel", "sync"},  # models in its tests alone
    "simulation": {"optim", "cluster", "center", "sync"},
    "engine": {"graph", "comm", "parallel"},
    "train": {"graph", "data", "optim", "cluster", "report", "comm", "center", "models", "parallel", "planner", "sync", "simulation", "engine"},
    "launch": {"cluster", "report", "comm", "train"},
    "doctor": {"cluster", "comm"},
    "study": {"models", "report", "train", "launch"},
    "cli": {"graph", "data", "optim", "cluster", "report", "comm", "center", "fetch", "models", "parallel", "planner", "sync", "simulation", "engine", "train", "launch", "doctor", "study"},
}

# Third parties, by how their headers begin -> the modules that may include them (None: any).
THIRD_PARTIES = {
    "oneapi/dnnl/": {"engine"},
    "dnnl": {"engine"},
    "cblas": {"engine"},
    "omp.h": {"engine"},
    "fmt/": None,
    "nlohmann/": None,
    "CLI/": None,
    "zlib.h": None,
    "xxh": None,
    "hwloc": {"base"},
    "turbojpeg": {"data"},
    "jpeglib": {"data"},
    "png": {"data"},
    "google/protobuf/": None,
    "yaml-cpp/": None,
    "curl/": {"fetch"},
    "openssl/": {"center", "comm", "fetch"},
    "mpi.h": {"comm"},
    "grpc": {"center"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# The definition of a type outside of others.
TYPE = re.compile(r"(?:struct|class|enum(?: class)?) ([A-Z]\w*)(?: final)?(?: :[^;]*)? ?\{")
# cmake/CohortInstall.cmake has the same two.
PRIVATE = re.compile(r"//[^\n]*\bPrivate to[ \n/]+[a-z]+\.")
FOR_TESTS = re.compile(r"//[^\n]*\bFor tests only")


def kind_of(path):
    """public, private or test: who may include this file, and what it may include itself."""
    if path.suffix == ".cpp":
        return "test" if path.name.endswith("_test.cpp") else "private"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return "private" if PRIVATE.search(text) else "test" if FOR_TESTS.search(text) else "public"


def violations_of_include(source, module, kind, quoted, header):
    """The sentences that are wrong about one #include in a file of `module` (None: a file in src/ itself)."""
    used = header.split("/")[0] if "/" in header else None
    if used in MAY_USE:
        used_kind = kind_of(source / header)
        if module is not None and used not in {module, "base"} | MAY_USE[module]:
            yield f"{module} may not use {used} ({header})"
        elif used_kind == "private" and used != module:
            yield f"{header} is private to {used}"
        elif used_kind == "private" and kind == "public":
            yield f"a public header may not include a private one ({header})"
        elif used_kind == "test" and kind != "test":
            yield f"{header} is for tests only"
        return
    if used == "tests":
        if kind != "test":
            yield f"{header} is for tests only"
        return
    if quoted:
        yield f'"{header}" does not begin with the name of a module; write "module/file.h"'
    for begin, owners in THIRD_PARTIES.items():
        if header.startswith(begin):
            if kind == "public":
                yield f"a public header may not include a third party's ({header}); .cpp files and private headers may"
            if owners is not None and module not in owners:
                yield f"only {' and '.join(sorted(owners))} may include {header}"
            return


def violations_in(source):
    """FILE:LINE: sentence, for the whole tree."""
    types = {}  # one namespace has them all, and no linker would say that it took another module's
    for path in sorted(source.rglob("*")):
        if path.suffix not in {".h", ".cpp"}:
            continue
        parts = path.relative_to(source).parts
        module = parts[0] if len(parts) > 1 else None
        if module is not None and module not in MAY_USE:
            yield f"{path}:1: the module {module} has no row in the table of scripts/check_borders.py"
            continue
        kind = kind_of(path)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if match:
                for sentence in violations_of_include(source, module, kind, match[1] == '"', match[2]):
                    yield f"{path}:{number}: {sentence}"
            match = TYPE.match(line) if path.suffix == ".h" else None
            if match and types.setdefault(match[1], path) != path:
                yield f"{path}:{number}: {match[1]} is a type of {types[match[1]].relative_to(source)} already"


def violations_in_table():
    above = set()
    for module, used in MAY_USE.items():
        for name in sorted(used - above):
            yield f"scripts/check_borders.py: the row {module} names {name}, which is not a row above it"
        above.add(module)


def self_test():
    files = {
        "graph/ok.h": '#include <vector>\n#include "base/error.h"\n#include "graph/op.h"\n// #include "cli/no.h"\n',
        "graph/ok.cpp": '#include <fmt/format.h>\n#include <zlib.h>\n#include "graph/ok.h"\n',
        "engine/ok.cpp": '#include <oneapi/dnnl/dnnl.hpp>\n#include "graph/ok.h"\n',
        "engine/program.h": "// Tasks. Private to\n// engine.\n#include <oneapi/dnnl/dnnl.hpp>\n",
        "engine/program.cpp": '#include "engine/program.h"\n',
        "engine/ok_test.cpp": '#include "tests/reference/naive_network.h"\n',
        "base/folder.h": "// For tests only: a folder.\n",
        "data/ok_test.cpp": '#include "base/folder.h"\n',
        "main.cpp": '#include "cli/run.h"\n',
        "center/ok.cpp": '#include <openssl/x509.h>\n#include "optim/rule.h"\n',
        "fetch/ok.cpp": "#include <openssl/evp.h>\n",
        "graph/upward.h": '#include "engine/plan.h"\n',
        "graph/spaced.cpp": '\n  #  include "train/trainer.h"\n',
        "data/angle.cpp": "#include <optim/rule.h>\n",
        "base/below.h": '#include "graph/op.h"\n',
        "models/sideways_test.cpp": '#include "data/dataset.h"\n',
        "sync/kernel.cpp": "#include <oneapi/dnnl/dnnl.hpp>\n",
        "optim/kernel.cpp": "#include <dnnl.h>\n",
        "data/secret.cpp": "#include <openssl/evp.h>\n",
        "engine/public.h": "#include <dnnl.hpp>\n",
        "engine/leak.h": '#include "engine/program.h"\n',
        "data/borrower.cpp": '#include "base/folder.h"\n',
        "train/intruder.cpp": '#include "engine/program.h"\n',
        "report/format.h": "#include <fmt/core.h>\n",
        "cli/flags.h": "#include <CLI/CLI.hpp>\n",
        "train/json.h": "#include <nlohmann/json.hpp>\n",
        "data/gzip.h": "#include <zlib.h>\n",
        "base/digest.h": "#include <xxhash.h>\n",
        "data/neighbour.cpp": '#include "dataset.h"\n',
        "engine/testing.cpp": '#include "tests/reference/naive_network.h"\n',
        "newcomer/thing.h": "#pragma once\n",
        "comm/message.h": "struct Message {\n  struct Part {\n  };\n};\nclass Part;\n",
        "data/part.h": "class Part : public Whole {\n};\n",
        "center/message.h": "class Message final {\n};\n",
    }
    expected = {
        "graph/upward.h:1": "graph may not use engine",
        "graph/spaced.cpp:2": "graph may not use train",
        "data/angle.cpp:1": "data may not use optim",
        "base/below.h:1": "base may not use graph",
        "models/sideways_test.cpp:1": "models may not use data",
        "sync/kernel.cpp:1": "only engine may include",
        "optim/kernel.cpp:1": "only engine may include",
        "data/secret.cpp:1": "only center and comm and fetch may include",
        "engine/public.h:1": "a public header may not include a third party",
        "engine/leak.h:1": "a public header may not include a private one",
        "data/borrower.cpp:1": "base/folder.h is for tests only",
        "train/intruder.cpp:1": "engine/program.h is private to engine",
        "report/format.h:1": "a public header may not include a third party",
        "cli/flags.h:1": "a public header may not include a third party",
        "train/json.h:1": "a public header may not include a third party",
        "data/gzip.h:1": "a public header may not include a third party",
        "base/digest.h:1": "a public header may not include a third party",
        "data/neighbour.cpp:1": "does not begin with the name of a module",
        "engine/testing.cpp:1": "naive_network.h is for tests only",
        "newcomer/thing.h:1": "has no row",
        "comm/message.h:1": "Message is a type of center/message.h already",
    }
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        for name, text in files.items():
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_text(text, encoding="utf-8")
        found = {}
        for violation in violations_in(source):
            place, sentence = violation.removeprefix(f"{folder}/").split(": ", 1)
            found.setdefault(place, []).append(sentence)
    wrong = [f"not found: {place}: {text}" for place, text in expected.items()
             if not any(text in sentence for sentence in found.get(place, []))]
    wrong += [f"found without reason: {place}: {sentences}" for place, sentences in found.items()
              if place not in expected or len(sentences) != 1]
    return wrong


def main(arguments):
    if arguments == ["--self-test"]:
        wrong = self_test()
    else:
        source = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "src"
        wrong = list(violations_in_table()) + list(violations_in(source))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
