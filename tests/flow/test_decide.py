#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Deciding: the hash, hazards, one winner, who may not, and all the ways nobody decides.
import json
import os
import signal
import time

import lib
from lib import Home, RpcError, eq, has, test, wait_for

H = Home().start()
BIDI = "print('a\u202eb')\n"


def denied(a, what, rc=125):
    r = a.wait()
    eq(r.rc, rc, r)
    has(r.why.splitlines()[-1], what)
    return r


@test
def wrong_short_and_missing_hash():
    a = H.run("print('w')")
    row = H.pending()
    n = str(row["id"])
    r = H.cmd("approve", n, "--sha", "0123456789abcdef")
    eq(r.rc, 5, r)
    eq(H.cmd("approve", n, "--sha", row["sha256"][:15]).rc, 2)
    eq(H.cmd("approve", n, "--sha", "x" * 16).rc, 2)
    eq(H.cmd("approve", n).rc, 2)
    eq(H.cmd("approve", "999999", "--sha", row["sha256"]).rc, 3)
    eq(H.cmd("approve", "no-number", "--sha", row["sha256"]).rc, 2)
    eq(H.cmd("deny", n, "--sha", "0123456789abcdef").rc, 5)
    eq(H.rows(1)[0]["state"], "pending", "still pending after all that")
    eq(H.cmd("approve", "#" + n, "--sha", row["sha256"][:16]).rc, 0, "16 digits are enough")
    eq(a.wait().out, b"w\n")


@test
def a_second_decision_is_told_who_was_first():
    a = H.run("print('second')")
    row = H.pending()
    H.ok("deny", str(row["id"]))
    r = H.approve(row)
    eq(r.rc, 4, r)
    has(r.why, "denied")
    eq(H.cmd("deny", str(row["id"])).rc, 4)
    denied(a, "denied")


@test
def stdin_is_never_read():
    a = H.run("print('stdin')")
    row = H.pending()
    n = str(row["id"])
    for sub in (["approve", n], ["approve", n, "--sha", "0123456789abcdef"], ["pending"], ["show", n]):
        H.cmd(*sub, stdin=b"y\n" * 1000 + row["sha256"].encode() + b"\n")
    eq(H.rows(1)[0]["id"], row["id"], "no bytes on stdin decide anything")
    r, w = os.pipe()
    os.write(w, b"yes\n")
    pid = os.fork()
    if pid == 0:
        os.dup2(r, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execve(lib.BIN, [lib.BIN, "approve", n, "--sha", row["sha256"]], H.env)
    os.waitpid(pid, 0)
    eq(os.read(r, 99), b"yes\n", "approve left its stdin alone")
    eq(a.wait().out, b"stdin\n")


@test
def u202e_is_high_shown_escaped_and_not_approved_without_its_name():
    a = H.run(BIDI)
    row = H.pending()
    eq(row["hazards"], ["bidi"])
    eq(row["high"], True)
    shown = H.ok("show", str(row["id"]))
    has(shown.text, "\\u{202e}")
    has(shown.text, "HIGH")
    has(shown.text, "risk: bidi")
    assert "\u202e" not in shown.text
    table = H.ok("pending").text
    assert "\u202e" not in table
    has(table, "\\u{202e}")
    assert "\\x5c" not in table, "rendered twice"
    for json_out in (H.ok("pending", "--json"), H.ok("show", str(row["id"]), "--json")):
        assert "\u202e" not in json_out.text
        json.loads(json_out.out)
    r = H.cmd("approve", str(row["id"]), "--sha", row["sha256"])
    eq(r.rc, 7, r)
    has(r.why, "not acknowledged: bidi\n")
    has(r.why, "--ack bidi")
    eq(H.cmd("approve", str(row["id"]), "--sha", row["sha256"], "--ack", "ansi").rc, 7)
    eq(H.cmd("approve", str(row["id"]), "--sha", row["sha256"], "--ack", "nosuch").rc, 2)
    H.ok("deny", str(row["id"]), "--reason", "hidden text")
    r = denied(a, "denied: hidden text")
    eq(r.out, b"")
    eq(H.audit("request.started", id=row["id"]), [])


@test
def a_hazard_may_be_approved_by_name():
    a = H.run(BIDI + "#2")
    eq(H.approve(H.pending()).rc, 0)
    eq(a.wait().out.decode(), "a\u202eb\n")


@test
def on_a_terminal_approve_prints_what_it_decides():
    import pty
    a = H.run("print('shown first')")
    row = H.pending()
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(lib.BIN, [lib.BIN, "approve", str(row["id"]), "--sha", row["sha256"]], dict(H.env, TERM="xterm"))
    out = b""
    try:
        while True:
            d = os.read(fd, 65536)
            if not d:
                break
            out += d
    except OSError:
        pass
    eq(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, out)
    os.close(fd)
    assert out.index(b"line 1: print('shown first')") < out.index(b"approved: #"), out
    eq(a.wait().out, b"shown first\n")


@test
def terminal_codes_in_a_purpose_or_reason_never_reach_a_terminal():
    with H.rpc("agent") as c:
        n = c.send("request.submit", kind="run_code", waitMs=20000, purpose="\x1b]0;x\x07\u202e",
                   body={"code": "print(1)", "language": "python"})
        row = H.pending()
        for out in (H.ok("show", str(row["id"])).out, H.ok("pending").out):
            assert b"\x1b" not in out and "\u202e".encode() not in out, out
        H.ok("deny", str(row["id"]), "--reason", "\x1b[2Jgone\u202e")
        eq(c.answer(n)["state"], "denied")


@test
def denied_bytes_are_remembered_until_forgotten():
    code = "print('remember')"
    a = H.run(code)
    H.ok("deny", str(H.pending()["id"]))
    denied(a, "denied")
    denied(H.run(code), "denied")
    eq(H.rows(), [])
    H.ok("forget-deny")
    a = H.run(code)
    H.approve(H.pending())
    eq(a.wait().out, b"remember\n")


@test
def identical_requests_merge_and_both_get_the_answer():
    with H.rpc("agent", runId="m-1") as one, H.rpc("agent", runId="m-1") as two:
        body = {"code": "print('merged')", "language": "python"}
        a = one.send("request.submit", kind="run_code", waitMs=20000, body=body)
        row = H.pending()
        b = two.send("request.submit", kind="run_code", waitMs=20000, body=body)
        wait_for("two waiting", lambda: H.rows(1) and H.rows(1)[0]["waiting"] == 2)
        H.approve(row)
        eq([one.answer(a)["result"]["stdout"], two.answer(b)["result"]["stdout"]], ["merged\n"] * 2)
    wait_for("its record", lambda: len(H.audit("request.started", id=row["id"])) == 1)


@test
def after_the_requester_left_nothing_runs():
    a = H.run("open('/workspace/ran', 'w')")
    row = H.pending()
    a.kill(signal.SIGKILL)
    a.wait()
    wait_for("detached", lambda: not (H.rows(1) or [{"attached": True}])[0]["attached"])
    r = H.approve(row)
    eq(r.rc, 0, r)
    has(r.text, "requester has left")
    time.sleep(0.3)
    eq(H.audit("request.started", id=row["id"]), [])
    with H.rpc("agent") as c:
        e, _ = c.refused("request.wait", approvalId=row["id"], sha256="0" * 64, waitMs=1000)
        assert e, "another hash claims nothing"
        res = c.call("request.wait", approvalId=row["id"], sha256=row["sha256"], waitMs=20000)
        eq(res["state"], "done", "the same principal with the same hash claims it")
    wait_for("its record", lambda: len(H.audit("request.started", id=row["id"])) == 1)


@test
def the_requester_can_not_approve_itself():
    # The approver's ancestor is the requester: a shell that asks over the wire, then approves.
    code = r'''
import json, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
def send(i, m, **p): s.sendall(json.dumps({"jsonrpc": "2.0", "id": i, "method": m, "params": p}).encode() + b"\n")
f = s.makefile()
send(1, "hello", proto=1, client={"name": "sly", "version": "1"}, want="agent"); f.readline()
send(2, "request.submit", kind="run_code", waitMs=0, body={"code": "print('self')", "language": "python"})
r = json.loads(f.readline())["result"]
p = subprocess.run([sys.argv[2], "approve", str(r["approvalId"]), "--sha", r["sha256"]], capture_output=True)
print(p.returncode, p.stderr.decode())
'''
    sly = H.file("sly.py", code)
    a = lib.Agent(H, ["python3", sly, os.path.join(H.runtime, "agent.sock"), lib.BIN])
    r = a.wait()
    has(r.text, "7 ")
    wait_for("the record", lambda: H.audit("refused", why="self_approval"))
    for row in H.rows():
        H.ok("deny", str(row["id"]))


@test
def a_sibling_of_the_requester_can_not_approve_either():
    # An agent's shell runs `boxgate run &` and then approves: the parent is the same.
    script = f"'{lib.BIN}' run --lang python <\"$D/in\" & sleep 0.5; " \
             f"'{lib.BIN}' pending --json >\"$D/rows\"; id=$(sed -n 's/.*\"id\": *\\([0-9]*\\).*/\\1/p' \"$D/rows\"); " \
             f"sha=$(sed -n 's/.*\"sha256\": *\"\\([0-9a-f]*\\)\".*/\\1/p' \"$D/rows\"); " \
             f"'{lib.BIN}' approve $id --sha $sha; echo \"approve: $?\" >&2; kill $!; wait"
    r = lib.Agent(H, ["bash", "-c", script], b"print('sibling')").wait()
    has(r.why, "approve: 7")
    has(r.why, "another terminal")
    eq(r.out, b"")


@test
def two_decisions_race_and_one_wins():
    rounds = 1000 // lib.SLOW
    wins = [0, 0]
    with H.rpc() as x, H.rpc() as y, H.rpc("agent", runId="race") as agent:
        for i in range(rounds):
            n = agent.send("request.submit", kind="run_code", waitMs=0, callId=f"r{i}",
                           body={"code": f"#{i}", "language": "sh"})
            r = agent.answer(n)
            ask = dict(id=r["approvalId"], sha256=r["sha256"], decision="deny")
            first, second = (x, y) if i % 2 else (y, x)
            a, b = first.send("approval.decide", **ask), second.send("approval.decide", **ask)
            got = []
            for c, n in ((first, a), (second, b)):
                try:
                    c.answer(n)
                    got.append(True)
                    wins[c is y] += 1
                except RpcError as e:
                    eq(e.cls, "already_decided")
                    got.append(False)
            eq(got.count(True), 1, f"round {i}")
    eq(sum(wins), rounds)
    ids = [r["id"] for r in H.audit("request.decided", decision="deny")]
    eq(len(ids), len(set(ids)), "one decision for each request")


@test
def two_approve_commands_race_and_one_wins():
    for i in range(5):
        a = H.run(f"print('cli race {i}')")
        row = H.pending()
        both = [H.agent("approve", str(row["id"]), "--sha", row["sha256"]) for _ in range(2)]
        eq(sorted(b.wait().rc for b in both), [0, 4])
        eq(a.wait().out.decode(), f"cli race {i}\n")
        wait_for("its record", lambda: len(H.audit("request.started", id=row["id"])) == 1)


@test
def nobody_decides_and_it_expires():
    with Home("pendingMs: 1500").start() as h:
        a = h.run("print('late')")
        row = h.pending()
        r = h.cmd("approve", str(row["id"]), "--sha", "0123456789abcdef")
        eq(r.rc, 5, r)
        denied(a, "expired")
        r = h.approve(row)
        eq(r.rc, 6, r)
        eq(h.audit("request.started"), [])


@test
def nobody_there_denies():
    with Home("noConsoleMs: 700").start() as h:
        a = h.run("print('alone')")
        denied(a, "denied")
        watch = h.agent("pending", "--watch")
        wait_for("the watcher", lambda: json.loads(h.ok("server", "status", "--json").out)["clients"] >= 2)
        a = h.run("print('watched')")
        row = h.pending()
        time.sleep(1.2)
        eq(len(h.rows()), 1, "an operator is there: it waits")
        has(watch.read("out").decode(), f"#{row['id']:04d} ")
        watch.kill(signal.SIGINT)
        eq(watch.wait().rc, 130)
        denied(a, "denied")


@test
def no_wait_denies_at_once_without_an_operator():
    began = time.monotonic()
    r = H.run("print('nw')", "--no-wait").wait()
    eq(r.rc, 125, r)
    assert time.monotonic() - began < 5 * lib.SLOW
    watch = H.agent("pending", "--watch", "--json")
    wait_for("the watcher", lambda: json.loads(H.ok("server", "status", "--json").out)["clients"] >= 2)
    a = H.run("print('nw 2')", "--no-wait")
    row = H.pending()
    wait_for("its line", lambda: watch.read("out"))
    eq(json.loads(watch.read("out").splitlines()[0])["id"], row["id"])
    H.approve(row)
    eq(a.wait().out, b"nw 2\n")
    watch.kill(signal.SIGTERM)
    watch.wait()


@test
def headless_decisions_can_be_switched_off():
    with Home(config="version: 1\nprovider: local\noperator: {headless: false}\n").start() as h:
        a = h.run("print('hl')")
        row = h.pending()
        eq(h.approve(row).rc, 7)
        eq(len(h.rows()), 1)
        a.kill(signal.SIGTERM)
        eq(a.wait().rc, 130)


@test
def what_is_shown_is_every_byte():
    code = "\n".join(f"x{i} = {i}" for i in range(3000)) + "\n"
    a = H.run(code)
    row = H.pending()
    text = H.ok("show", str(row["id"])).text
    for i in (0, 1500, 2999):
        has(text, f"line {i + 1}: x{i} = {i}\n")
    has(text, f"sha256: {row['sha256']}")
    a.kill(signal.SIGTERM)
    a.wait()


@test
def c119_what_is_shown_is_what_runs():
    H.ok("session", "create", "--id", "c119")
    prog = "import sys,os; print(sys.argv[1:], os.getcwd(), os.environ['TOKEN'], os.getuid(), sys.stdin.read())"
    a = H.agent("exec", "c119", "--cwd", ".", "--env", "TOKEN=not masked", "--timeout", "9s", "--input", "-", "--",
                "python3", "-c", prog, "a  b", "", stdin=b"in")
    row = H.pending()
    text = H.ok("show", str(row["id"])).text
    for line in ("command: 7 bytes\nline 1: python3\n", f"line 1: {prog}\n", "line 1: a  b\n", "argument 4: 0 bytes",
                 "working directory: 1 byte\nline 1: .\n", "line 1: TOKEN=not masked\n", "input: 2 bytes",
                 "line 1: in\n", "user 1000:1000", "network: none", "512 MiB, 1 cpu, 256 processes, 9 s",
                 "workspace: /workspace", "image id: host"):
        has(text, line)
    eq(H.approve(row).rc, 0)
    eq(a.wait().text, "['a  b', ''] /workspace not masked 1000 in\n")
    a = H.run("print(1)")
    has(H.ok("show", str(H.pending()["id"])).text, "interpreter: python3, - (the code is its standard input)")
    a.kill(signal.SIGTERM)
    a.wait()
    H.ok("session", "rm", "c119")


try:
    lib.main()
finally:
    H.close()
