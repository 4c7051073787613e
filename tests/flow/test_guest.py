#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""boxgate-guest spoken to directly over its wire: as a plain process, and as PID 1 in a
bubblewrap of its own (as user 1000 without capabilities, the way it is shipped, and as root)."""
import hashlib
import os
import struct
import subprocess
import sys
import time
import traceback

from guest_lib import *

TESTS = []


def test(*hows):
    def add(fn):
        for how in hows or ("plain",):
            TESTS.append((f"{fn.__name__}[{how}]", fn, how))
        return fn
    return add


BOTH = ("plain", "pid1")
PRINT_ARGV = "import sys, os; sys.stdout.buffer.write(b'|'.join(os.fsencode(a) for a in sys.argv[1:]))"
PRINT_ENV = "import os; open(1, 'wb').write(open('/proc/self/environ', 'rb').read())"


# ---- exec ----

@test("plain", "pid1", "root1")
def exit_codes(how):
    with Guest(how) as g:
        for i, code in enumerate((0, 1, 2, 42, 124, 137, 255), 1):
            r = g.run(i, ["sh", "-c", f"exit {code}"], uid=1000 * (how == "root1"), gid=1000 * (how == "root1"))
            assert (r.exit.code, r.exit.signal, r.exit.why) == (code, 0, EXITED), r.exit
            assert r.started and r.exit.leftover == 0
        for i, sig in enumerate((9, 15, 11), 20):
            r = g.run(i, ["sh", "-c", f"kill -{sig} $$"])
            assert (r.exit.code, r.exit.signal, r.exit.why, r.exit.oom) == (-1, sig, EXITED, 0), r.exit


@test(*BOTH)
def argv_is_exact(how):
    args = [b"", b"a\nb", b"\xff\xfe\x80", b"-c", b"'\"$`\\", b"x" * 100000, b""]
    with Guest(how) as g:
        r = g.run(1, [b"python3", b"-c", PRINT_ARGV.encode(), *args])
        assert r.exit.code == 0 and bytes(r.out) == b"|".join(args), r.out[:200]


@test(*BOTH)
def env_is_exact(how):
    env = [b"PATH=/usr/bin", b"X=a\nb", b"EMPTY=", b"N=\xff", b"EQ=a=b=c"]
    with Guest(how, token="ab" * 32) as g:
        r = g.run(1, ["python3", "-c", PRINT_ENV], env=env)
        assert bytes(r.out) == b"\0".join(env) + b"\0", r.out
        assert g.link.hello[3] == b"\xab" * 32
        assert b"BOXGATE_TOKEN" not in open(f"/proc/{g.guest_pid()}/environ", "rb").read().replace(
            b"BOXGATE_TOKEN=" + b"\0" * 64, b""), "the token is still to be read"


@test()
def many_args_over_many_frames(how):
    args = [b"%d" % i * 20 for i in range(3000)]
    with Guest(how) as g:
        r = g.run(1, [b"python3", b"-c", PRINT_ARGV.encode(), *args], piece=1000)
        assert bytes(r.out) == b"|".join(args)


@test(*BOTH)
def cwd_and_umask(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "pwd; umask"], cwd="/tmp")
        assert bytes(r.out) == b"/tmp\n0022\n"
        for i, bad in enumerate(("/nowhere", "/etc/passwd/x", "/proc/version"), 2):
            r = g.run(i, ["true"], cwd=bad)
            assert r.error and r.error[0] == CWD and r.started is None, r.__dict__
        r = g.run(9, ["true"], cwd="relative")
        assert r.error[0] == BAD


@test(*BOTH)
def av08_command_not_found(how):
    with Guest(how) as g:
        r = g.run(1, ["nope-cmd"])
        assert r.error == (NOENT, 2) and r.text == "command not found" and not r.out and r.started is None
        assert g.run(2, ["/nope/cmd"]).error[0] == NOENT
        assert g.run(3, [""]).error[0] == NOENT
        assert g.run(4, ["/tmp"]).error[0] == ACCES
        assert g.run(5, ["nope-cmd"], env=[]).error[0] == NOENT
        assert g.run(6, ["true"], env=[b"PATH=/nowhere"]).error[0] == NOENT
        assert g.run(7, ["true"], env=[]).exit.code == 0
        assert g.run(8, ["sh", "-c", "printf '#!' > /tmp/x$$; chmod 755 /tmp/x$$; echo /tmp/x$$"]).exit.code == 0
        plain = bytes(g.runs[8].out).strip()
        assert g.run(9, [plain]).error[0] == ACCES, g.runs[9].__dict__
        g.run(10, ["rm", "-f", plain])
        r = g.run(11, [b"true", *[b"y" * 100000] * 40])
        assert r.error[0] == OTHER and "too long" in r.text, r.__dict__
        assert g.ask(1)[0] == 0, "a refused start leaves no record"


@test("plain", "user")
def path_is_the_given_one(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "mkdir -p $D/a $D/b; printf '#!/bin/sh\\necho mine\\n' > $D/b/zz;"
                      "cp $D/b/zz $D/a/zz; chmod 644 $D/a/zz; chmod 755 $D/b/zz"], env=ENV + [b"D=" + g.dir.encode()])
        assert r.exit.code == 0, r.err
        d = g.dir.encode()
        r = g.run(2, ["zz"], env=[b"PATH=" + d + b"/b"])
        assert bytes(r.out) == b"mine\n"
        if how == "user":
            assert g.run(3, ["zz"], env=[b"PATH=" + d + b"/a"]).error[0] == ACCES
        assert bytes(g.run(4, ["zz"], env=[b"PATH=" + d + b"/a:" + d + b"/b"]).out) == b"mine\n"
        assert bytes(g.run(5, ["./zz"], cwd=g.dir + "/b").out) == b"mine\n"
        assert bytes(g.run(6, ["zz"], env=[b"PATH=:/nowhere"], cwd=g.dir + "/b").out) == b"mine\n"


@test(*BOTH)
def c001_stdin_nobody_reads(how):
    with Guest(how) as g:
        r = g.run(1, ["true"], stdin=b"x" * (5 << 20))
        assert r.exit.code == 0 and r.sent < 5 << 20
        r = g.run(2, ["head", "-c", "3"], stdin=b"abc" * (1 << 20))
        assert r.exit.code == 0 and bytes(r.out) == b"abc"
        assert g.run(3, ["true"]).exit.code == 0


@test(*BOTH)
def c002_stdin_through_cat(how):
    data = os.urandom(8 << 20)
    with Guest(how) as g:
        begin = time.monotonic()
        r = g.run(1, ["cat"], stdin=data)
        assert r.exit.code == 0 and bytes(r.out) == data
        assert time.monotonic() - begin < 3


@test()
def c107_code_is_byte_exact(how):
    code = b"print('''" + bytes(range(32, 127)).replace(b"'", b"").replace(b"\\", b"") * 2000 + b"''')"
    with Guest(how) as g:
        r = g.run(1, ["sha256sum"], stdin=code)
        assert bytes(r.out).split()[0].decode() == hashlib.sha256(code).hexdigest()
        r = g.run(2, ["python3", "-"], stdin=code)
        assert r.exit.code == 0 and len(r.out) > 100000
        assert bytes(g.run(3, ["cat"], stdin=b"").out) == b""


@test()
def stderr_and_stdout_apart(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "echo out; echo err >&2; printf '\\342\\202'; echo E >&2; printf '\\254\\n'"])
        assert bytes(r.out) == b"out\n\xe2\x82\xac\n" and bytes(r.err) == b"err\nE\n"


@test()
def c109_pipelines(how):
    with Guest(how) as g:
        for i, (cmd, out, code) in enumerate((("seq 2 | wc -l", b"2\n", 0), ("false", b"", 1),
                                              ("grep x /dev/null", b"", 1), ("exit 42", b"", 42)), 1):
            r = g.run(i, ["sh", "-c", cmd])
            assert (bytes(r.out), r.exit.code) == (out, code)


@test(*BOTH)
def child_starts_clean(how):
    script = ("import os, signal\n"
              "print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:4])\n"
              "s = open('/proc/self/status').read()\n"
              "print([l.split()[1] for l in s.splitlines() if l[:6] in ('SigBlk', 'SigPnd')])\n"
              "print(os.getsid(0) == os.getpid())\n")
    with Guest(how) as g:
        r = g.run(1, ["python3", "-c", script])
        lines = bytes(r.out).decode().splitlines()
        assert lines[0] == "[0, 1, 2, 3]", lines  # 3 is the listing itself
        assert lines[1] == "['0000000000000000', '0000000000000000']" and lines[2] == "True", lines
        r = g.run(2, ["sh", "-c", "grep SigIgn /proc/self/status"])
        assert bytes(r.out).split()[1] == b"0" * 16, r.out


@test("root1")
def drops_to_the_asked_user(how):
    with Guest(how) as g:
        r = g.run(1, ["id"], uid=1234, gid=2345)
        assert b"uid=1234" in r.out and b"gid=2345" in r.out, r.out
        r = g.run(2, ["sh", "-c", "grep Groups /proc/self/status"], uid=1234, gid=2345)
        assert bytes(r.out).split() == [b"Groups:"], r.out
        r = g.run(3, ["sh", "-c", "kill -9 $PPID; echo $?"], uid=1234, gid=2345)
        assert bytes(r.out) == b"1\n" and r.exit.why == EXITED


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


# ---- limits ----

@test("user")
def process_limit_is_named(how):
    with Guest(how) as g:
        pid = g.guest_pid()
        limit = [*AS_USER, "prlimit", "--pid", str(pid)]
        subprocess.run([*limit, "--nproc=1:"], check=True)
        r = g.run(1, ["true"])
        assert r.error and r.error[0] == LIMIT and r.text == "process limit reached (1)", r.__dict__
        subprocess.run([*limit, "--nproc=4096:"], check=True)
        assert g.run(2, ["true"]).exit.code == 0


@test()
def open_file_limit(how):
    with Guest(how) as g:
        subprocess.run(["prlimit", "--pid", str(g.guest_pid()), "--nofile=10:"], check=True)
        r = g.run(1, ["true"])
        assert r.error and r.error[0] == LIMIT and r.text == "open file limit reached", r.__dict__
        subprocess.run(["prlimit", "--pid", str(g.guest_pid()), "--nofile=1024:"], check=True)
        assert g.run(2, ["true"]).exit.code == 0


# ---- flow ----

@test(*BOTH)
def credit_is_respected(how):
    with Guest(how) as g:
        r = g.exec(1, ["sh", "-c", "yes | head -c 3000000; echo end >&2"], credit=1000, auto=False)
        g.spend(0.4)
        assert len(r.out) == 1000 and not r.over
        g.credit(1, 1, 70000)
        g.spend(0.3)
        assert len(r.out) == 71000
        assert g.run(2, ["echo", "other"]).exit.code == 0, "one slow stream must not hold the rest"
        while not r.over:
            g.credit(1, 1, 500000)
            g.credit(1, 2, 10)
            g.spend(0.02)
        assert len(r.out) == 3000000 and bytes(r.err) == b"end\n" and r.exit.code == 0


@test()
def ended_command_waits_for_its_reader(how):
    with Guest(how) as g:
        r = g.exec(1, ["head", "-c", "900000", "/dev/zero"], credit=10, auto=False)
        g.spend(1.0)  # longer than the drain: the bytes are there and wait for credit
        assert len(r.out) == 10 and not r.over
        g.credit(1, 1, 1 << 20)
        g.until(lambda: r.over)
        assert len(r.out) == 900000 and r.exit.ms < 900


@test()
def zero_credit_and_exit(how):
    with Guest(how) as g:
        r = g.run(1, ["true"], credit=0)
        assert r.exit.code == 0
        r = g.exec(2, ["sh", "-c", "echo x"], credit=0, auto=False)
        g.spend(0.7)
        assert not r.over
        g.credit(2, 1, 0xffffffff)
        g.until(lambda: r.over)
        assert bytes(r.out) == b"x\n"


@test()
def tail_never_blocks(how):
    with Guest(how) as g:
        r = g.exec(1, ["sh", "-c", "head -c 20000000 /dev/zero; echo end"], credit=5000, auto=False, flags=F_TAIL)
        g.until(lambda: r.started)
        g.until(lambda: g.tree() == [] or g.spend(0.05), 8, "the end of a program nobody reads")
        g.credit(1, 1, 1 << 24)
        g.until(lambda: r.over)
        assert bytes(r.out).endswith(b"end\n") and len(r.gaps) == 1 and r.gaps[0][0] == 1
        assert r.gaps[0][1] + len(r.out) == 20000004, (r.gaps, len(r.out))


# ---- the link ----

@test(*BOTH)
def repeated_id_starts_nothing(how):
    with Guest(how) as g:
        r = g.run(1, ["sh", "-c", "echo once; exit 3"])
        assert r.exit.code == 3
        again = g.exec(1, ["sh", "-c", "echo twice; exit 0"], piece=20, stdin=None)
        g.until(lambda: again.state, 5)
        g.spend(0.2)
        assert again.state[0] == 2 and again.state[1].code == 3 and not again.out and again.started is None
        g.exec(2, ["sleep", "333"])
        g.until(lambda: g.runs[2].started)
        again = g.exec(2, ["sleep", "333"], stdin=None)
        g.until(lambda: again.state, 5)
        assert again.state[0] == 1 and g.sleeping("333") == 1
        g.send(FORGET, 1)
        assert g.ask(1)[0] == 0 and g.ask(2)[0] == 1 and g.ask(99)[0] == 0
        for i in range(1000, 1300):
            g.run(i, ["true"])
        assert g.ask(1000)[0] == 0 and g.ask(1044)[0] == 2 and g.ask(1299)[0] == 2


@test(*BOTH)
def link_drop_keeps_the_last_bytes(how):
    script = "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; echo err >&2; exit 9"
    whole = b"".join(b"line %d\n" % i for i in range(30000))
    with Guest(how) as g:
        r = g.exec(1, ["sh", "-c", "read x; " + script], stdin=b"go\n")
        g.exec(2, ["sleep", "222"])
        g.until(lambda: r.started and g.runs[2].started)
        while not r.out:
            g.step(1)
        r.auto = False
        g.drop()
        seen = len(r.out)
        time.sleep(1.5)
        g.accept()
        assert g.link.hello[5] == 2, "it still knows both"
        r.auto = True
        g.credit(1, 1, 1 << 20)
        g.until(lambda: r.over, 10)
        assert (r.exit.code, r.exit.why) == (9, EXITED) and bytes(r.err) == b"err\n"
        tail = bytes(r.out[seen:])
        assert whole.endswith(tail) and len(tail) >= RING, len(tail)
        gap = sum(n for s, n, _ in r.gaps if s == 1)
        # what was written to the dead socket and never read is known to the reader alone
        assert seen + gap + len(tail) <= len(whole) and gap > 0
        assert g.sleeping("222") == 1 and g.ask(2)[0] == 1 and g.ask(1)[0] == 2
        assert g.kill(2) == 0


@test()
def stdin_cut_by_the_link_is_never_closed(how):
    with Guest(how) as g:
        r = g.exec(1, ["sh"], stdin=None)
        g.send(STDIN, 1, b"echo one\nrm -rf /tmp/x")
        g.until(lambda: bytes(r.out) == b"one\n")
        g.drop()
        g.accept()
        g.send(STDIN, 1, b"y\necho two\n", F_EOF)
        g.spend(0.4)
        assert bytes(r.out) == b"one\n" and not r.over
        assert g.kill(1) == 0


@test()
def deadline_holds_without_a_server(how):
    with Guest(how) as g:
        r = g.exec(1, ["sleep", "91"], deadline=600)
        g.until(lambda: r.started)
        g.drop()
        time.sleep(1.2)
        assert g.sleeping("91") == 0
        g.accept()
        g.until(lambda: r.over)
        assert r.exit.why == DEADLINE and r.exit.ms < 1000


@test()
def garbage_from_the_server(how):
    junk = [b"\0" * 64, b"\xff" * 64, os.urandom(4096), struct.pack("<IIHHI", 70000, 1, EXEC, 0, 101),
            struct.pack("<IIHHI", 0, 1, 9, 0, 0), struct.pack("<IIHHI", 0, 1, 999, 0, 0)]
    with Guest(how) as g:
        g.exec(5, ["sleep", "77"])
        g.until(lambda: g.runs[5].started)
        for j in junk:
            j = j[:12] + struct.pack("<I", g.epoch) + j[16:] if len(j) == 16 else j
            g.raw(j)
            end = time.monotonic() + 3
            while g.link.open and time.monotonic() < end:
                g.step(0.2)
            assert not g.link.open, j[:20]
            g.drop()
            g.accept()
        assert g.run(6, ["true"]).exit.code == 0 and g.sleeping("77") == 1


@test()
def bad_exec_requests(how):
    head = lambda argc, envc, total: struct.pack("<IIIIIIII", argc, envc, 0, total, 0, 0, 1000, 0)
    good = blob_of(["true"], [], "/")
    bad = [head(0, 0, len(good)) + good, head(1, 0, len(good) - 1) + good, head(1, 0, len(good) + 1) + good,
           head(0xffffffff, 0xffffffff, len(good)) + good, head(2, 0, len(good)) + good, head(1, 0, 1 << 30) + good,
           head(1, 0, 0xffffffff), b"", head(1, 0, 12) + b"\xff" * 12, head(1, 1, len(good) + 3) + good + b"abc",
           head(1, 0, len(good)) + blob_of([b"t\0ue"], [], "/"), head(1, 0, len(good) + 9) + blob_of(["true"], [], "/\0" + "x" * 8)]
    with Guest(how) as g:
        for i, payload in enumerate(bad, 1):
            r = g.runs[i] = Run(None, True, 1000)
            r.first_credit = 1000
            g.send(EXEC, i, payload)
            g.until(lambda: r.over, 5, f"an answer to bad request {i}")
            assert r.error and r.error[0] == BAD, (i, r.__dict__)
        # refused in the first frame: the rest is swallowed, not taken for a new request
        r = g.runs[50] = Run(None, True, 1000)
        g.send(EXEC, 50, head(0, 0, 100) + b"x", F_MORE)
        g.send(EXEC, 50, head(1, 0, len(good)) + good, F_MORE)
        g.send(EXEC, 50, b"")
        g.until(lambda: r.over)
        g.spend(0.1)
        assert r.started is None and g.run(51, ["true"]).exit.code == 0


@test()
def fuzzed_frames_do_no_harm(how):
    import random
    rnd = random.Random(7)
    with Guest(how) as g:
        for turn in range(120):
            kind = rnd.choice((EXEC, STDIN, CREDIT_OUT, KILL, QUERY, GET_STATS, FORGET, PING, WELCOME))
            n = rnd.choice((0, 1, 4, 8, 32, 60, 5000))
            g.frame = lambda *a: None
            g.send(kind, rnd.randrange(4), rnd.randbytes(n), rnd.randrange(8))
            g.step(0.01)
            if not g.link.open:
                g.drop()
                g.accept()
        del g.frame
        g.drop()
        g.accept()
        assert g.run(99, ["true"]).exit.code == 0


@test()
def other_epochs_and_pings(how):
    with Guest(how) as g:
        g.send(PING, 5, epoch=1)
        g.send(PING, 6)
        g.until(lambda: g.pongs)
        assert g.pongs == [6]
        for i in range(5000):  # more answers than its queue holds, none lost
            g.send(PING, i)
        g.until(lambda: len(g.pongs) == 5001, 10)


@test(*BOTH)
def stats_count(how):
    with Guest(how) as g:
        g.exec(1, ["sh", "-c", "sleep 41 & sleep 41"])
        g.until(lambda: g.sleeping("41") == 2 or g.spend(0.02))
        cpu, mem, limit, procs, execs = g.get_stats()
        assert procs == 3 and execs == 1 and mem > 0, (cpu, mem, procs)


@test(*BOTH)
def shutdown_leaves_nothing(how):
    g = Guest(how)
    try:
        for i in range(1, 5):
            g.exec(i, ["sh", "-c", "setsid sleep 61 & trap '' TERM; sleep 61"])
        g.until(lambda: g.sleeping("61") == 8 or g.spend(0.02))
        pids = g.tree()
        g.send(SHUTDOWN, 0)
        while g.link.open:
            g.step(1)
        assert g.p.wait(3) == 0
        assert [p for p in pids if (s := stat_of(p)) and s[0] not in "ZX"] == []
    finally:
        g.close()


@test(*BOTH)
def term_from_outside_ends_it(how):
    with Guest(how) as g:
        g.exec(1, ["sleep", "62"])
        g.until(lambda: g.sleeping("62") == 1 or g.spend(0.02))
        pids = g.tree()
        os.kill(g.guest_pid(), 15)
        g.p.wait(3)
        assert [p for p in pids if (s := stat_of(p)) and s[0] not in "ZX"] == []


@test(*BOTH)
def linger_ends_it(how):
    with Guest(how, linger=1500, empty=300) as g:
        g.exec(1, ["sleep", "63"])
        g.until(lambda: g.sleeping("63") == 1 or g.spend(0.02))
        pids = g.tree()
        g.listener.close()
        os.unlink(g.path)
        g.drop()
        begin = time.monotonic()
        g.p.wait(6)
        assert 1.3 < time.monotonic() - begin < 3
        assert [p for p in pids if (s := stat_of(p)) and s[0] not in "ZX"] == []


@test()
def linger_is_short_when_empty_and_a_server_may_come_back(how):
    with Guest(how, linger=30000, empty=900) as g:
        g.listener.close()
        os.unlink(g.path)
        g.drop()
        time.sleep(0.4)
        g.listen()
        g.accept()
        assert g.run(1, ["true"]).exit.code == 0
        g.drop()
        g.listener.close()
        os.unlink(g.path)
        begin = time.monotonic()
        g.p.wait(4)
        assert 0.7 < time.monotonic() - begin < 2


@test(*BOTH)
def small_when_idle(how):
    with Guest(how) as g:
        for i in range(1, 20):
            g.run(i, ["true"])
        g.spend(0.1)
        status = open(f"/proc/{g.guest_pid()}/status").read()
        rss = int(status.split("VmRSS:")[1].split()[0])
        print(f"# idle linked: {rss} KiB")
        assert rss <= 1024
        ticks = open(f"/proc/{g.guest_pid()}/stat").read().split()[13:15]
        g.spend(1)
        assert open(f"/proc/{g.guest_pid()}/stat").read().split()[13:15] == ticks, "it spins when idle"


def usable():
    r = subprocess.run([*bwrap_argv("/tmp", "pid1", None)[:-2], "true"], capture_output=True)
    return r.returncode == 0, r.stderr.decode(errors="replace").strip()[:100]


def main():
    only = sys.argv[1:]
    boxed, why = usable()
    bad = 0
    for name, fn, how in TESTS:
        if only and not any(o in name for o in only):
            continue
        if how in ("pid1", "root1") and not boxed:
            print(f"skip {name}: bubblewrap can't make a sandbox here ({why})")
            continue
        if how in ("root1", "user") and os.getuid() != 0:
            print(f"skip {name}: needs root")
            continue
        begin = time.monotonic()
        try:
            fn(how)
            print(f"ok {name} ({(time.monotonic() - begin) * 1000:.0f} ms)", flush=True)
        except Exception:  # noqa: BLE001 - a test fails by any error
            bad += 1
            print(f"not ok {name}")
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
    sys.exit(bad > 0)


main()
