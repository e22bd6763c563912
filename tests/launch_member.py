#!/usr/bin/env python3
"""Stands in for `cohort` on a host: `attend` is the real one's, and `train` a member that keeps to the same contract in no time.

A member writes what it was told to JOB/members/NAME.N.json, N counting its starts, and prints a line. It then does what files in
JOB say: `finish` (the run is done: exit 0), `stopped` (it stopped: exit 75), `fail-NAME` (end with that code). SIGTERM makes the
one that serves first write `stopped`; it ends all others with 143.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

if sys.argv[1] == "attend":
    os.execv(os.environ["COHORT_REAL"], [os.environ["COHORT_REAL"], *sys.argv[1:]])

words = sys.argv[1:]


def value(flag):
    return words[words.index(flag) + 1] if flag in words else None


job = Path(value("--job-dir"))
name = f"{value('--job-name')}-{value('--task-index')}"
leads = name == ("ps-0" if value("--ps-hosts") else "worker-0")
signal.signal(signal.SIGTERM, lambda *_: (job / "stopped").touch() if leads else os._exit(143))
members = job / "members"
members.mkdir(exist_ok=True)
count = len(list(members.glob(f"{name}.*.json")))
draft = members / f"{name}.draft"
draft.write_text(json.dumps({"pid": os.getpid(), "parent": os.getppid(), "words": words, "cwd": os.getcwd(),
                             "odd": os.environ.get("COHORT_ODD"), "supervisor": os.environ.get("COHORT_SUPERVISOR")}))
draft.rename(members / f"{name}.{count}.json")
print(f"{name} starts", flush=True)
give_up = time.monotonic() + 300
while time.monotonic() < give_up:
    failure = job / f"fail-{name}"
    if failure.exists():
        print(f"cohort: {name} cannot go on", file=sys.stderr, flush=True)
        sys.exit(int(failure.read_text()))
    if (job / "stopped").exists():
        print(f"{name} has stopped", flush=True)
        sys.exit(75)
    if (job / "finish").exists():
        print(f"{name} is done", flush=True)
        sys.exit(0)
    time.sleep(0.02)
sys.exit(1)
