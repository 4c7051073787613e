#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# When things die or are in the way: the server in mid-request, the record, stale sockets,
# many starters at once, a sandbox killed from outside.
import json
import os
import signal
import subprocess

import lib
from lib import Home, eq, has, test, wait_for


@test
def fifty_starters_give_one_server():
    with Home() as h:
        n = 50 // lib.SLOW
        ps = [subprocess.Popen([lib.BIN, "run", "--lang", "python", "--no-wait"], env=h.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(n)]
        outs = [p.communicate(b"print(1)", timeout=60 * lib.SLOW) for p in ps]
        for p, (_, err) in zip(ps, outs):
            eq(p.returncode, 125, err)
            assert b"denied" in err or b"limit" in err or b"pending" in err, err
        eq(len(h.audit("server.start")), 1)


@test
def a_stale_socket_is_no_obstacle():
    with Home().start() as h:
        h.crash()
        assert os.path.exists(os.path.join(h.runtime, "operator.sock"))
        r = h.approved_run("print('after the crash')")
        eq(r.out, b"after the crash\n", r)
        eq(len(h.audit("server.start")), 2)


@test
def killed_with_a_pending_request_it_is_lost_and_never_runs():
    with Home().start() as h:
        a = h.run("open('/workspace/x', 'w')")
        row = h.pending()
        h.crash()
        r = a.wait()
        eq(r.rc, 125, r)
        has(r.why.splitlines()[-1], "boxgate: lost: ")
        h.start()
        wait_for("its end in the record", lambda: h.audit("request.finished", id=row["id"], state="lost"))
        eq(h.audit("request.started", id=row["id"]), [])
        assert h.approve(row).rc in (3, 4)
        a = h.run("print('next')")
        assert h.pending()["id"] > row["id"], "numbers are never used again"
        a.kill(signal.SIGTERM)
        h.ok("audit", "verify")


@test
def killed_in_mid_run_it_is_interrupted_and_nothing_is_left():
    mark = f"63.{os.getpid()}"
    with Home().start() as h:
        a = h.run(f"echo on; sleep {mark}", lang="bash")
        row = h.pending()
        h.approve(row)
        wait_for("the run", lambda: a.read("out"))
        h.crash()
        r = a.wait()
        eq(r.rc, 125, r)
        has(r.why.splitlines()[-1], "boxgate: lost: ")
        h.start()
        wait_for("its end in the record", lambda: h.audit("request.finished", id=row["id"], state="interrupted"))
        wait_for("the program to be gone", lambda: subprocess.run(
            ["pgrep", "-f", f"^sleep {mark}$"], stdout=subprocess.DEVNULL).returncode == 1)
        eq(len(h.audit("request.started", id=row["id"])), 1)
        h.ok("audit", "verify")


@test
def a_record_that_can_not_be_written_denies():
    with Home().start() as h:
        a = h.run("print('never')")
        row = h.pending()
        db = os.path.join(h.path, "state/audit.db")
        lock = subprocess.Popen(["python3", "-c", "import sqlite3,sys,time\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
                                 "c.execute('begin immediate')\nprint('locked',flush=True)\ntime.sleep(600)", db],
                                stdout=subprocess.PIPE)
        lock.stdout.readline()
        try:
            r = h.cmd("approve", str(row["id"]), "--sha", row["sha256"], secs=60)
            eq(r.rc, 7, r)
            r = a.wait(60)
            eq((r.rc, r.out), (125, b""), r)
        finally:
            lock.kill()
            lock.wait()
        eq(h.audit("request.started", id=row["id"]), [])
        h.ok("audit", "verify")


@test
def changed_records_are_found():
    import sqlite3
    with Home().start() as h:
        h.approved_run("print(1)")
        h.ok("server", "stop", "--force")
        h.ok("audit", "verify")
        c = sqlite3.connect(os.path.join(h.path, "state/audit.db"))
        c.execute("update audit set line = cast(replace(cast(line as text), '\"event\"', '\"evenT\"') as blob) where seq = 4")
        c.commit()
        c.close()
        r = h.cmd("audit", "verify")
        eq(r.rc, 1, r)
        has(r.why, "4")


@test
def stop_is_refused_while_a_request_waits():
    with Home().start() as h:
        a = h.run("print('wait')")
        row = h.pending()
        r = h.cmd("server", "stop")
        eq(r.rc, 1, r)
        has(r.why, "--force")
        h.ok("server", "stop", "--force")
        r = a.wait()
        eq(r.rc, 125, r)
        h.start()
        eq(h.audit("request.started", id=row["id"]), [])
        h.ok("server", "stop")
        r = h.ok("server", "stop")
        has(r.why, "no server")


@test
def a_stopped_server_leaves_nothing_running():
    mark = f"64.{os.getpid()}"
    with Home().start() as h:
        a = h.run(f"echo on; sleep {mark}", lang="bash")
        h.approve(h.pending())
        wait_for("the run", lambda: a.read("out"))
        h.ok("server", "stop", "--force")
        eq(a.wait().rc, 125)
        eq(subprocess.run(["pgrep", "-f", f"^sleep {mark}$"], stdout=subprocess.DEVNULL).returncode, 1)
        r = h.ok("sweep")
        has(r.why, "0 removed")


@test
def sweep_removes_what_a_dead_server_left():
    with Home().start() as h:
        a = h.run("echo on; sleep 600", "--session", "left-1", lang="bash")
        h.approve(h.pending())
        wait_for("the run", lambda: a.read("out"))
        r = h.cmd("sweep")
        eq(r.rc, 1, "a live server's sandboxes are not touched")
        h.crash()
        dry = h.ok("sweep", "--dry-run")
        r = h.ok("sweep")
        eq(dry.out, r.out)
        assert r.out or "0 removed" in r.why
        has(h.ok("sweep", "--dry-run").why, "0 would be removed")


@test
def running_out_of_memory_is_said():
    with Home().start() as h:
        if "memory" in str(json.loads(h.ok("server", "status", "--json").out)["provider"]["notEnforced"]):
            raise lib.Skip("no memory limit here")
        a = h.run("x = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", "--json")
        h.approve(h.pending())
        j = json.loads(a.wait().out)
        assert j["oom"] or "MemoryError" in str(j["stderr"]), j


@test
def a_foreground_server_serves_and_ends_cleanly():
    with Home() as h:
        s = h.agent("server", "--foreground")
        wait_for("its socket", lambda: os.path.exists(os.path.join(h.runtime, "operator.sock")))
        eq(h.approved_run("print('fg')").out, b"fg\n")
        r = h.cmd("server", "--foreground")
        eq(r.rc, 1, r)
        has(r.why, "another server")
        s.kill(signal.SIGTERM)
        r = s.wait(40)
        eq(r.rc, 0, r)
        assert b"Sanitizer" not in r.err, r
        eq(os.path.exists(os.path.join(h.runtime, "operator.sock")), False)


@test
def the_logs_hold_no_code_and_no_output():
    with Home().start() as h:
        h.approved_run("print('SECRET' + '-WORD')")
        with open(os.path.join(h.path, "state/server.log"), "rb") as f:
            log = f.read()
        assert b"SECRET" not in log, log


lib.main()
