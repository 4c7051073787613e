#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# The short version of tests/long/test_crash_points.py: crash points and SIGKILLs for some seconds.
import os
import random
import shutil
import sys
import tempfile
import time
import traceback

import crash_lib
from crash_lib import SLOW

SECONDS = float(os.environ.get("CRASH_SECONDS", "18"))
STALL_MS = 60


def plan(seed, points, harness):
    """Early hits of every point, mixed with random moments; then random ones until time is up."""
    rnd = random.Random(seed)
    faults = [(p, n) for p in points for n in (1, 2, 3)] + [
        (p, rnd.randint(4, 16)) for p in points if p.startswith("audit.") for _ in range(2)] + [
        (p, n, STALL_MS) for p in crash_lib.stalls(points) for n in range(4, 18)]
    rnd.shuffle(faults)
    while True:
        fault = faults.pop() if faults and rnd.random() < 0.8 else None
        yield (fault, None) if fault else (None, rnd.random() * 1.2 * harness.span)


def main():
    seed = os.environ.get("CRASH_SEED") or str(random.randrange(10**6))
    binary = crash_lib.FAULTY if os.path.exists(crash_lib.FAULTY) else crash_lib.BIN
    points = crash_lib.points() if binary == crash_lib.FAULTY else []
    tmp = tempfile.mkdtemp(prefix="bgc.", dir="/tmp")
    h = crash_lib.Harness(binary, seed, tmp)
    name = "crashes_run_nothing_undecided_and_leave_nothing"
    try:
        h.run(plan(seed, points, h), time.monotonic() + SECONDS * SLOW)
        print("#", dict(h.count))
        for what in ("programs that ran", "lost", "interrupted"):
            assert h.count[what], f"no {what}: the rounds show nothing"
        missed = [p for p in points if not h.count[p]]
        assert not missed or len(missed) < len(points) / 2, f"points never reached: {missed}"
        print(f"ok {name} ({h.count['rounds']} rounds, seed {seed})")
        return 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print(f"not ok {name} (seed {seed})")
        return 1
    finally:
        h.close()
        shutil.rmtree(tmp, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
