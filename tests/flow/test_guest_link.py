#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""boxgate-guest over its wire: the link itself, lost, repeated, flooded, ended."""
import os
import struct
import time

from guest_lib import *


# ---- the link ----

@test(*BOTH)
def c074_repeated_id_starts_nothing(how):
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
def repeated_at_once(how):
    with Guest(how) as g:
        for i in range(1, 200):
            g.exec(i, ["sh", "-c", "echo once"])
            r = g.exec(i, ["sh", "-c", "echo twice"], stdin=None)
            g.until(lambda: r.over)
            assert bytes(r.out) == b"once\n" and r.exit.code == 0, r.__dict__
            assert r.state and r.state[0] in (1, 2)
        g.exec(500, ["nope-cmd"])
        r = g.exec(500, ["nope-cmd"], stdin=None)
        g.until(lambda: r.over)
        g.spend(0.1)
        assert r.error[0] == NOENT and r.state is None


@test(*BOTH)
def c004_link_drop_keeps_the_last_bytes(how):
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


main()
