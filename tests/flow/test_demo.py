#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# make demo without a terminal: what was expected is what was seen, in under 30 s, and
# nothing of it stays behind, also when it is interrupted.
import glob
import os
import signal
import subprocess
import time

import lib
from lib import BIN, BUILD, SRC, eq, has, test, wait_for

DEMO = os.path.join(SRC, "tests/demo/demo")


def env():
    e = {k: v for k, v in os.environ.items() if not k.startswith("BOXGATE_")}
    return dict(e, BOXGATE_BIN=BIN, BOXGATE_GUEST=os.path.join(BUILD, "boxgate-guest"), BOXGATE_HOME="/nonexistent/home")


def start():
    return subprocess.Popen([DEMO], env=env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            start_new_session=True)


@test
def headless_demo():
    began = time.monotonic()
    p = start()
    out, _ = p.communicate(timeout=100)
    eq(p.returncode, 0, out)
    eq(out.count("\nok "), 7, out)
    assert "FAILED" not in out
    has(out, "a script is the operator")
    has(out, "provider local")
    assert time.monotonic() - began < 30 * lib.SLOW
    folder = out.split()[3]
    assert folder.startswith("/tmp/boxgate-demo."), out
    eq(os.path.exists(folder), False, "its folder is gone")
    eq(os.path.exists("/nonexistent"), False)


@test
def interrupted_demo_leaves_nothing():
    p = start()
    first = p.stdout.readline()
    folder = first.split()[3]
    sock = os.path.join(folder, "home/run/operator.sock")
    wait_for("its server", lambda: os.path.exists(sock))
    os.killpg(p.pid, signal.SIGTERM)
    p.communicate(timeout=60)
    assert p.returncode != 0
    eq(os.path.exists(folder), False)
    for cmdline in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(cmdline, "rb") as f:
                assert folder.encode() not in f.read(), cmdline
        except OSError:
            pass


lib.main()
