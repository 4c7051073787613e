#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""boxgate-guest over its wire: what commands leave behind, deadlines, kill, supervisors."""
import os
import time

from guest_lib import *


# ---- background children, leftovers ----

@test(*BOTH)
def c010_child_holds_stdout(how):
    with Guest(how) as g:
        begin = time.monotonic()
        r = g.run(1, ["sh", "-c", "(sleep 30; echo late) & echo done"], deadline=20000)
        took = time.monotonic() - begin
        assert r.exit.code == 0 and bytes(r.out) == b"done\n" and r.exit.why == EXITED
        assert 0.4 < took < 2 and r.exit.leftover >= 1, (took, r.exit)
        assert g.get_stats()[3] == r.exit.leftover
        r = g.run(2, ["sh", "-c", "sleep 31 >/dev/null 2>&1 & exit 5"], deadline=300)
        assert (r.exit.code, r.exit.leftover, r.exit.why) == (5, 1, EXITED)
        time.sleep(0.6)  # the deadline of an ended command passes: what it left stays
        assert g.sleeping("31") == 1 and g.sleeping("30") == 1
        assert g.kill(2) == 0 and g.sleeping("31") == 0 and g.sleeping("30") == 1
        assert g.ask(2)[0] == 2 and g.ask(2)[1].code == 5


@test()
def busy_child_does_not_hold_the_exit(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "yes & echo pid"], timeout=8)
        assert r.exit.code == 0 and r.exit.why == EXITED and b"pid" in r.out
        assert r.exit.leftover <= 1, "closing its pipe may have ended it already"
        assert g.kill(1) == 0 and g.tree() == []


@test(*BOTH)
def c028_no_zombies_pile_up(how):
    with Guest(how) as g:
        for i in range(1, 31):
            g.exec(i, ["sh", "-c", "sleep 500 & (sleep 600 &) & exec sleep 700"])
            g.until(lambda: g.runs[i].started, 5)
            assert g.kill(i) == 0
            g.until(lambda: g.runs[i].over, 5)
            assert g.runs[i].exit.why == WHY_KILLED and g.runs[i].exit.leftover == 0
        assert g.tree() == []
        states = [st for p in os.listdir("/proc") if p.isdigit() and (st := stat_of(p)) and st[1] == g.guest_pid()]
        assert states == [], states


# ---- timeouts and kill ----

@test(*BOTH)
def c008_av04_deadline_kills_the_tree(how):
    with Guest(how) as g:
        script = "echo part; setsid sleep 881 & setsid sh -c 'sleep 882 & sleep 883' & sh -c 'sleep 884'"
        r = g.run(1, ["sh", "-c", script], deadline=700)
        assert (r.exit.why, r.exit.signal, r.exit.leftover) == (DEADLINE, 9, 0), r.exit
        assert 700 <= r.exit.ms < 1500 and bytes(r.out) == b"part\n"
        assert g.tree() == [], [cmdline(p) for p in g.tree()]
        assert g.run(2, ["true"]).exit.code == 0


@test(*BOTH)
def deadline_spares_the_others(how):
    with Guest(how) as g:
        g.exec(1, ["sleep", "701"])
        g.run(2, ["sh", "-c", "sleep 702 >/dev/null 2>&1 &"])
        r = g.run(3, ["sh", "-c", "sleep 703 & sleep 704"], deadline=300)
        assert r.exit.why == DEADLINE
        assert [g.sleeping(str(n)) for n in (701, 702, 703, 704)] == [1, 1, 0, 0]
        assert g.kill(1) == 0 and g.sleeping("702") == 1
        assert g.ask(1)[0] in (1, 2)


@test(*BOTH)
def c062_exit_codes_of_a_timeout(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "trap '' TERM; sleep 5; sleep 5"], deadline=400)
        assert r.exit.why == DEADLINE and r.exit.ms < 1500
        r = g.run(2, ["sh", "-c", "exit 124"], deadline=5000)
        assert (r.exit.code, r.exit.why) == (124, EXITED)
        r = g.run(3, ["sh", "-c", "exit 137"], deadline=5000)
        assert (r.exit.code, r.exit.why) == (137, EXITED)
        r = g.run(4, ["sh", "-c", "kill -9 $$"], deadline=5000)
        assert (r.exit.signal, r.exit.why) == (9, EXITED)
        r = g.run(5, ["sleep", "0.9"], deadline=1000)
        assert (r.exit.code, r.exit.why) == (0, EXITED), r.exit


@test(*BOTH)
def kill_with_grace(how):
    with Guest(how) as g:
        g.exec(1, ["sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"])
        g.until(lambda: b"up" in g.runs[1].out)
        begin = time.monotonic()
        assert g.kill(1, grace=4000) == 0 and time.monotonic() - begin < 2
        g.until(lambda: g.runs[1].over)
        r = g.runs[1]
        assert (r.exit.code, r.exit.why) == (7, WHY_KILLED) and b"bye" in r.out, (r.exit, r.out)
        g.exec(2, ["sh", "-c", "trap '' TERM; echo up; (trap '' TERM; sleep 801; sleep 802) & while :; do sleep 0.05; done"])
        g.until(lambda: b"up" in g.runs[2].out)
        begin = time.monotonic()
        assert g.kill(2, grace=500) == 0
        assert 0.45 < time.monotonic() - begin < 2 and g.tree() == []
        g.until(lambda: g.runs[2].over)
        assert (g.runs[2].exit.why, g.runs[2].exit.signal) == (WHY_KILLED, 9)
        assert g.kill(2) == 0 and g.ask(2)[0] == 2


@test(*BOTH)
def kill_before_it_started(how):
    with Guest(how) as g:
        for i in range(1, 120):
            r = g.exec(i, ["nope-cmd"] if i % 2 else ["sleep", "779"])
            assert g.kill(i) == 0
            g.until(lambda: r.over)
            assert r.error or r.exit.why == WHY_KILLED, r.exit
        assert g.tree() == []
        r = g.runs[500] = Run(None, True, 0)
        assert g.kill(500) == 0, "an id nobody knows has nothing left"


@test(*BOTH)
def av10_setsid_child_goes_with_stop(how):
    with Guest(how) as g:
        g.exec(1, ["sh", "-c", "setsid sleep 888 & wait"])
        g.until(lambda: g.sleeping("888") == 1)
        assert g.kill(1, grace=200) == 0 and g.sleeping("888") == 0
        g.until(lambda: g.runs[1].over)
        assert g.runs[1].exit.why == WHY_KILLED


TREE = "import os, time\nfor _ in range(8):\n    if os.fork() == 0: os.setsid()\ntime.sleep(100)"
# The main process stays, beside it eight that fork and exit without end.
HOPPERS = ("import os, time\nif os.fork() == 0:\n    for _ in range(3): os.fork()\n"
           "    while True:\n        if os.fork(): os._exit(0)\n        os.setsid()\ntime.sleep(100)")


@test(*BOTH)
def fork_bomb_of_256_dies(how):
    with Guest(how) as g:
        other = g.exec(2, ["sleep", "55"])
        g.exec(1, ["python3", "-c", TREE])
        g.until(lambda: len(g.tree()) >= 256 or g.spend(0.05), 20, "256 processes")
        begin = time.monotonic()
        assert g.kill(1) == 0
        took = time.monotonic() - begin
        assert took < 1.0 and g.sleeping("55") == 1, took
        assert len(g.tree()) == 2, [cmdline(p) for p in g.tree()]
        g.until(lambda: g.runs[1].over)
        assert g.runs[1].exit.leftover == 0 and other.exit is None
        print(f"# 256 in sessions of their own, beside another command: {took * 1000:.0f} ms")


@test(*BOTH)
def hopping_processes_die(how):
    with Guest(how) as g:
        g.exec(1, ["python3", "-c", HOPPERS])
        g.exec(2, ["sleep", "56"])
        g.spend(0.5)
        begin = time.monotonic()
        assert g.kill(1) == 0
        took = time.monotonic() - begin
        assert g.sleeping("56") == 1 and len(g.tree()) == 2
        print(f"# eight that fork and exit without end: {took * 1000:.0f} ms")


@test("pid1")
def the_only_command_dies_at_once(how):
    with Guest(how) as g:
        for i, bomb in enumerate((TREE, HOPPERS), 1):
            g.exec(i, ["python3", "-c", bomb])
            g.until(lambda: len(g.tree()) >= (256 if bomb is TREE else 8) or g.spend(0.05), 20)
            begin = time.monotonic()
            assert g.kill(i) == 0
            print(f"# alone: {(time.monotonic() - begin) * 1000:.0f} ms")
            assert g.tree() == []


# ---- supervisors ----

@test(*BOTH)
def av11_c067_supervisor_killed(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "setsid sleep 551 & kill -9 $PPID; sleep 555"])
        assert r.exit.why == SUPERVISOR_LOST and r.exit.code != 0, r.exit
        assert r.started is not None, "whatever became of it, it may have run"
        assert g.tree() == [], [cmdline(p) for p in g.tree()]
        r = g.run(2, ["sh", "-c", "kill -9 $PPID; exit 0"])
        assert r.exit.why == SUPERVISOR_LOST and r.exit.code != 0
        assert g.run(3, ["true"]).exit.code == 0


@test(*BOTH)
def supervisor_stopped_is_lost(how):
    with Guest(how) as g:
        for i, how_sig in enumerate(("STOP", "TSTP", "TERM", "USR1", "SEGV"), 1):
            r = g.run(i, ["sh", "-c", f"kill -{how_sig} $PPID; sleep 0.2; exit 6"], deadline=5000)
            if how_sig == "STOP":
                assert r.exit.why == SUPERVISOR_LOST, r.exit
            else:
                assert (r.exit.code, r.exit.why) == (6, EXITED), (how_sig, r.exit)
        assert g.tree() == []


@test("user", "pid1")
def supervisor_is_out_of_reach(how):
    script = ("import os, ctypes\n"
              "p = os.getppid(); n = []\n"
              "for f in ('mem', 'fd/3', 'environ', 'maps'):\n"
              "    try: open(f'/proc/{p}/{f}', 'rb').read(1); n.append(f)\n"
              "    except OSError: pass\n"
              "libc = ctypes.CDLL(None)\n"
              "if libc.ptrace(16, p, 0, 0) == 0: n.append('ptrace')\n"
              "print(n)\n")
    with Guest(how) as g:
        assert bytes(g.run(1, ["python3", "-c", script]).out) == b"[]\n", g.runs[1].out


@test(*BOTH)
def lost_supervisor_of_a_leftover(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "(trap '' HUP; sleep 0.3; exec sleep 661) >/dev/null 2>&1 & echo $PPID"])
        assert r.exit.leftover >= 1
        sup = [p for p in g.tree() if stat_of(p)[1] == g.guest_pid()]
        g.until(lambda: g.sleeping("661") == 1 or g.spend(0.05))
        os.kill(sup[0], 9)
        g.until(lambda: g.tree() == [] or g.spend(0.02), 3, "the end of the stray")
        assert g.run(2, ["true"]).exit.code == 0 and g.ask(1)[0] == 2


@test("pid1")
def kill_minus_one_by_the_program(how):
    with Guest(how) as g:
        g.exec(1, ["sleep", "444"])
        g.until(lambda: g.runs[1].started)
        r = g.run(2, ["python3", "-c", "import os\nos.kill(-1, 9)"])
        assert r.exit.why in (SUPERVISOR_LOST,), r.exit
        g.until(lambda: g.runs[1].over)
        assert g.runs[1].exit.why == SUPERVISOR_LOST
        assert g.run(3, ["true"]).exit.code == 0 and g.tree() == []


FORGE = """
import ctypes, os, struct, signal
libc = ctypes.CDLL(None, use_errno=True)
os.kill(1, signal.SIGTERM); os.kill(1, signal.SIGINT); os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP)
for code in (-1, -2, -60, 0, 0x80):
    info = ctypes.create_string_buffer(struct.pack('iiiiII', 15, 0, code, 0, 0, 0) + bytes(104), 128)
    libc.syscall(129, 1, 15, info)
print('alive')
"""


@test("pid1")
def init_ignores_signals_from_inside(how):
    with Guest(how) as g:
        assert bytes(g.run(1, ["python3", "-c", FORGE]).out) == b"alive\n"
        g.spend(0.3)
        assert g.link.open and g.run(2, ["true"]).exit.code == 0 and g.p.poll() is None


main()
