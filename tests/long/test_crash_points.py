#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Every hit of every crash point, then SIGKILL at thousands of random moments: see tests/flow/crash_lib.py.
# CRASH_ROUNDS (4000), CRASH_SEED.
import os
import random
import shutil
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../flow"))
import crash_lib  # noqa: E402

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "4000"))
STALL_MS = 60
MISSES = 4  # the order of the steps varies; so many times not reached: there is no such hit


def every_hit(points):
    for point in points:
        hit, missed = 1, 0
        while missed < MISSES:
            fired = yield (point, hit), None
            missed = 0 if fired else missed + 1
            hit += fired
        print(f"# {point}: {hit - 1} hits", flush=True)


def plan(seed, points, harness):
    yield from every_hit(points)
    rnd = random.Random(seed)
    while harness.round < ROUNDS:
        if rnd.random() < 0.2:
            yield (rnd.choice(crash_lib.stalls(points)), rnd.randint(1, 24), STALL_MS), None
        elif rnd.random() < 0.2:
            yield (rnd.choice(points), rnd.randint(1, 20)), None
        else:
            yield None, rnd.random() * 1.2 * harness.span


def main():
    seed = os.environ.get("CRASH_SEED") or str(random.randrange(10**6))
    name = "no_crash_runs_what_was_not_decided"
    if not os.path.exists(crash_lib.FAULTY):
        print(f"not ok {name}: no {crash_lib.FAULTY}")
        return 1
    tmp = tempfile.mkdtemp(prefix="bgc.", dir="/tmp")
    h = crash_lib.Harness(crash_lib.FAULTY, seed, tmp)
    points = crash_lib.points()
    try:
        h.run(plan(seed, points, h))
        print("#", dict(h.count))
        missed = [p for p in points if not h.count[p]]
        assert not missed, f"points never reached: {missed}"
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
