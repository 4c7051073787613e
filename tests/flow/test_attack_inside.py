#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Hostile code in a local sandbox: PID 1, the supervisor, the link, every process at once,
# full folders, endless output. Each ends as what it was, and the server stays.
import time

import lib
from lib import Home, eq, has, test

H = Home().start()
H.policy("version: 1\nrules: [{id: all, decision: allow, kinds: [run_code], sandbox: {provider: local, "
         "imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: true}}]\n")
PID = H.server_pid()


def inside(code, timeout="2s"):
    began = time.monotonic()
    r = H.run(code, "--timeout", timeout).wait()
    assert time.monotonic() - began < 8 * lib.SLOW, "it took too long to end"
    eq(H.server_pid(), PID)
    return r


@test
def the_first_process_is_out_of_reach():
    r = inside("import os\nfor s in range(1, 65):\n  try: os.kill(1, s)\n  except OSError: pass\n"
               "for n in ('mem', 'environ', 'maps', 'fd', 'root', 'cwd'):\n"
               "  for p in (1, os.getppid()):\n"
               "    try: os.listdir(f'/proc/{p}/{n}') if n in ('fd', 'root', 'cwd') else open(f'/proc/{p}/{n}').read(1)\n"
               "    except PermissionError: continue\n    print('open', p, n)\nprint('end')\n")
    eq((r.rc, r.text), (0, "end\n"), r)


@test
def a_supervisor_that_was_killed_or_stopped_is_no_success():
    for how in ("os.kill(os.getppid(), 9)", "os.kill(os.getppid(), 19)", "os.kill(-1, 9)"):
        r = inside(f"import os, time\n{how}\ntime.sleep(0.3)\n")
        eq(r.rc, 125, r)
        has(r.why, "lost")


@test
def bombs_end_at_the_deadline():
    eq(inside("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n").rc, 124)
    eq(inside("import sys\nwhile True: sys.stdout.write('y' * 65536)\n").rc, 124)


@test
def folders_are_as_large_as_they_say():
    r = inside("for p in ('/tmp/a', '/workspace/a', '/dev/shm/a'):\n  try:\n    with open(p, 'wb', 0) as f:\n"
               "      while True: f.write(b'x' * (1 << 20))\n  except OSError as e: print(e.errno)\n", "10s")
    eq((r.rc, r.text), (0, "28\n28\n28\n"), r)


@test
def the_link_is_not_to_be_had():
    r = inside("import os\nprint(os.listdir('/.boxgate/link'))\n"
               "for p in ('/.boxgate/link/x', '/.boxgate/guest', '/usr/x', '/x', '/dev/x'):\n"
               "  try: open(p, 'w'); print('wrote', p)\n  except OSError: pass\n")
    eq((r.rc, r.text), (0, "[]\n"), r)


try:
    lib.main()
finally:
    H.close()
