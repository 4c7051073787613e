#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""boxgate-guest over its wire: what a command is given, its streams, credit and limits."""
import hashlib
import os
import subprocess
import time

from guest_lib import *

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


EAT = "x = []\nwhile True: x.append(b'a' * (1 << 20))"


@test()
def c025_oom_only_from_the_counters(how):
    group = MemoryGroup(64 << 20)
    if not group.path:
        raise Skip("no memory cgroup can be made here")
    try:
        with Guest(how, wrap=group.wrap()) as g:
            r = g.run(1, ["python3", "-c", EAT])
            assert (r.exit.signal, r.exit.why) == (9, OOM) and r.exit.oom >= 1, r.exit
            r = g.run(2, ["sh", "-c", "python3 -c \"$EAT\"; echo inner $?"], env=ENV + [b"EAT=" + EAT.encode()])
            assert bytes(r.out) == b"inner 137\n" and r.exit.code == 0 and r.exit.oom >= 1, (r.exit, r.out)
            assert r.exit.why == EXITED
            r = g.run(3, ["sh", "-c", "kill -9 $$"])
            assert (r.exit.signal, r.exit.why, r.exit.oom) == (9, EXITED, 0), r.exit
            _, mem, limit, _, _ = g.get_stats()
            assert limit == 64 << 20 and 0 < mem <= limit, (mem, limit)
    finally:
        group.close()


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


main()
