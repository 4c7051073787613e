#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# What a hostile agent can do with its socket: descriptors that are no pipes, flags it
# changes under the server, answers it never reads, requests too large to be looked at.
import fcntl
import json
import os
import resource
import socket
import struct
import time

import lib
from lib import Agent, Home, Rpc, RpcError, eq, has, test, wait_for

H = Home().start()
BODY = {"code": "print(1)", "language": "python"}


def submit(c, fds=(), **params):
    params = {"kind": "run_code", "waitMs": 0, "body": BODY, **params}
    c.next += 1
    line = json.dumps({"jsonrpc": "2.0", "id": c.next, "method": "request.submit", "params": params}).encode() + b"\n"
    n = socket.send_fds(c.s, [line], list(fds)) if fds else 0
    c.s.sendall(line[n:])
    return c.answer(c.next)


def status():
    return json.loads(H.ok("server", "status", "--json", secs=8).out)


def row_of(ref):
    return [r for r in H.rows() if r["id"] == ref["approvalId"]][0]


def cancel(c, ref):
    c.call("request.cancel", approvalId=ref["approvalId"], sha256=ref["sha256"])


@test
def a_full_pipe_whose_flags_the_agent_changes_does_not_hold_the_server():
    with H.rpc("agent") as c:
        ends = [*os.pipe(), *os.pipe()]
        ref = submit(c, (ends[1], ends[3]), body={"code": "print('x' * 3000000)", "language": "python"})
        eq(H.approve(row_of(ref)).rc, 0)
        end = time.monotonic() + 0.7
        while time.monotonic() < end:  # blocking again, whenever the server may have said otherwise
            fcntl.fcntl(ends[1], fcntl.F_SETFL, fcntl.fcntl(ends[1], fcntl.F_GETFL) & ~os.O_NONBLOCK)
        assert status()["pid"]
        for fd in ends:
            os.close(fd)
    wait_for("the run's end", lambda: H.audit("request.finished", id=ref["approvalId"]))


@test
def a_connection_passed_over_itself_does_not_keep_its_requester_there():
    c = H.rpc("agent")
    ref = submit(c, (c.s.fileno(), c.s.fileno()))
    c.close()
    wait_for("the requester to be gone", lambda: not row_of(ref)["attached"])
    r = H.approve(row_of(ref))
    has(r.text, "requester has left")
    eq(H.audit("request.claimed", id=ref["approvalId"]), [])


@test
def descriptors_beside_half_a_line_are_not_kept():
    before = status()["clients"]
    c = H.rpc("agent")
    socket.send_fds(c.s, [b'{"jsonrpc":'], [c.s.fileno()] * 8)
    c.close()
    wait_for("the connection to be gone", lambda: status()["clients"] == before)


@test
def what_is_no_pipe_is_not_written_to():
    for what in ("file", "folder", "path only", "read end", "socket", "many"):
        with H.rpc("agent") as c:
            name = H.file("target", b"")
            fds = {"file": lambda: [os.open(name, os.O_RDWR)] * 2,
                   "folder": lambda: [os.open(H.tmp, os.O_RDONLY)] * 2,
                   "path only": lambda: [os.open(name, os.O_PATH)] * 2,
                   "read end": lambda: [os.pipe()[0]] * 2,
                   "socket": lambda: [socket.socketpair()[0].detach()] * 2,
                   "many": lambda: [os.open(name, os.O_RDWR)] * 200}[what]()
            ref = submit(c, fds)
            eq(H.approve(row_of(ref)).rc, 0)
            res = c.call("request.wait", approvalId=ref["approvalId"], sha256=ref["sha256"], waitMs=20000)
            eq(res["result"]["stdout"], "1\n", what)
            eq(os.path.getsize(name), 0, what)
            for fd in set(fds):
                os.close(fd)


@test
def answers_that_wait_are_few_and_their_ids_short():
    with H.rpc("agent") as c:
        ref = submit(c)
        ask = {"approvalId": ref["approvalId"], "sha256": ref["sha256"], "waitMs": 86400000}
        ids = [c.send("request.wait", **ask) for _ in range(65)]
        try:
            c.answer(ids[-1])
            raise AssertionError("65 waits were taken")
        except RpcError as e:
            eq(e.code, -32008)
        cancel(c, ref)
    c = H.rpc("agent")
    c.s.sendall(json.dumps({"jsonrpc": "2.0", "id": "i" * 300, "method": "ping"}).encode() + b"\n")
    has(c.line()["error"]["message"], "id is longer")
    c.close()


@test
def whoever_reads_no_answers_is_not_read_either():
    with H.rpc("agent") as c:
        c.s.setblocking(False)
        line = (json.dumps({"jsonrpc": "2.0", "id": "i" * 200, "method": "no.such"}).encode() + b"\n") * 64
        sent, stuck = 0, 0
        while stuck < 20:
            try:
                sent += c.s.send(line[sent % len(line):])
                stuck = 0
            except BlockingIOError:
                stuck += 1
                time.sleep(0.01)
            assert sent < 64 << 20, "it goes on reading"
        assert status()["rssBytes"] < (256 if lib.SLOW > 1 else 64) << 20
        c.s.settimeout(10 * lib.SLOW)  # and then all that was asked is answered
        got = 0
        while got < 64 * sent // len(line):
            got += c.s.recv(1 << 20).count(b"\n")


@test
def agents_leave_room_for_the_operator():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    socks = []
    for _ in range(1200):
        s = socket.socket(socket.AF_UNIX)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5 * lib.SLOW, 0))
        s.connect(os.path.join(H.runtime, "agent.sock"))
        socks.append(s)
    eq(H.cmd("pending", secs=8).rc, 0)
    assert status()["clients"] <= 140
    for s in socks:
        s.close()
    wait_for("them to be gone", lambda: status()["clients"] < 5)


@test
def a_console_that_does_not_read_is_cut_off_and_no_more():
    pid = status()["pid"]
    with H.rpc("agent") as c, H.rpc() as idle, H.rpc() as o:
        ref = submit(c, purpose="p" * 2000)
        idle.call("events.subscribe", topics=["approval"])
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "approval.extend",
                           "params": {"id": ref["approvalId"], "byMs": 1}}).encode() + b"\n"
        for _ in range(40):
            o.s.sendall(line * 100)
            for _ in range(100):
                o.line()
        eq(status()["pid"], pid)
        gone = 0
        try:
            while d := idle.s.recv(1 << 20):
                gone += len(d)
        except ConnectionResetError:
            pass
        assert gone < 10 << 20
        cancel(c, ref)


@test
def denied_requests_fill_neither_memory_nor_disk():
    with H.rpc("agent") as c:
        ref = submit(c, session="bloat")
        before = status()["rssBytes"]
        for i in range(12):
            big = str(i) + "A" * 8000000
            a = submit(c, kind="exec", session="bloat", noWait=True, body={"command": "cat", "input": big})
            eq(a["state"], "denied")
            submit(c, session="bloat", noWait=True, body={"code": f"#{i}" + os.urandom(500000).hex(), "language": "python"})
        if lib.SLOW == 1:
            assert status()["rssBytes"] - before < 160 << 20, "what is over is kept"
        cancel(c, ref)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(os.path.join(H.path, "state")) for f in fs)
    assert size < 8 << 20, f"{size} bytes on disk of what nobody looked at"


@test
def every_request_can_be_looked_at():
    with H.rpc("agent") as c:
        home = submit(c, session="large")
        e, _ = c.refused("request.submit", kind="exec", session="large",
                         body={"command": "cat", "args": ["A" * 120000] * 20})
        has(str(e), "2097152")
        body = {"command": "\x01" * 100000, "args": ["\x01" * 100000] * 15, "input": "A" * 6000000}
        ref = submit(c, kind="exec", session="large", body=body)
        r = H.ok("show", str(ref["approvalId"]))
        assert len(r.out) > 6000000, "shown in part"
        line = [x for x in H.audit("request.pending", id=ref["approvalId"])][0]
        eq((line["argv"], line["argvCount"], len(line["argvSha256"])), ([], 16, 64))
        cancel(c, ref)
        cancel(c, home)


@test
def call_ids_of_another_run_are_not_had():
    with H.rpc("agent", runId="one") as a, H.rpc("agent", runId="two") as b:
        x = submit(a, callId="c1")
        y = submit(b, callId="c1")
        assert x["approvalId"] != y["approvalId"]
        eq(submit(a, callId="c1")["approvalId"], x["approvalId"])
        e, _ = b.refused("request.submit", kind="run_code", callId="c1", body={"code": "2", "language": "python"})
        eq(e.code, -32006)
        cancel(a, x)
        cancel(b, y)


@test
def who_leaves_a_shared_run_does_not_end_it_for_the_others():
    body = {"code": "import time\ntime.sleep(0.7)\nprint('kept')", "language": "python"}
    with H.rpc("agent") as a, H.rpc("agent") as b:
        home = submit(a, session="shared")
        x, y = submit(a, session="shared", body=body), submit(b, session="shared", body=body)
        assert x["approvalId"] != y["approvalId"] and x["sha256"] == y["sha256"]
        eq(H.approve(row_of(x)).rc, 0)
        wait_for("the start", lambda: H.audit("request.started", id=x["approvalId"]))
        cancel(b, y)
        res = a.call("request.wait", approvalId=x["approvalId"], sha256=x["sha256"], waitMs=10000)
        eq((res["state"], res["result"]["stdout"]), ("done", "kept\n"))
        cancel(a, home)


@test
def whoever_joined_a_request_may_not_decide_it():
    with H.rpc("agent") as a, Rpc(os.path.join(H.runtime, "agent.sock"), "agent") as me, H.rpc() as o:
        home = submit(a, session="kin")
        x, y = (submit(c, session="kin", body={"code": "2", "language": "python"}) for c in (a, me))
        eq(x["sha256"], y["sha256"])
        for ref in (x, y):
            e, _ = o.refused("approval.decide", id=ref["approvalId"], sha256=x["sha256"], decision="approve")
            eq(e and e.code, -32013)
        cancel(me, y)
        eq(o.call("approval.decide", id=x["approvalId"], sha256=x["sha256"], decision="deny")["state"], "denied")
        cancel(a, home)


@test
def a_projects_file_is_read_through_no_link():
    secret = H.file("secret", b"hunter2: 1\n")
    for i, make in enumerate((lambda f: os.symlink(secret, f), os.mkfifo, lambda f: os.symlink("/dev/zero", f),
                              lambda f: os.mkdir(f))):
        d = os.path.join(H.tmp, f"project{i}")
        os.mkdir(d)
        make(os.path.join(d, ".boxgate.yaml"))
        a = Agent(H, ["sh", "-c", f"cd {d} && exec {lib.BIN} run --lang python --no-wait"], b"print(1)").wait()
        eq(a.rc, 125)
        assert b"hunter2" not in a.err, a
        has(a.why, "no regular file")


@test
def a_projects_file_can_not_hold_the_server():
    d = os.path.join(H.tmp, "searching")
    os.mkdir(d)
    code = b"#" + b"a" * 1000000
    for n in (16, 15000):
        words = [f"aaaa{i}b" for i in range(n)]
        rules = [f"{{id: r{i}, decision: ask, codeContains: [{','.join(words[i:i + 250])}]}}" for i in range(0, n, 250)]
        with open(os.path.join(d, ".boxgate.yaml"), "w") as f:
            f.write("rules: [" + ",\n".join(rules) + "]\n")
        began = time.monotonic()
        a = Agent(H, ["sh", "-c", f"cd {d} && exec {lib.BIN} run --lang python --no-wait"], code).wait()
        has(a.why, "nobody is there" if n == 16 else "15000 texts")
        assert time.monotonic() - began < 3 * lib.SLOW


@test
def a_deny_that_came_meanwhile_beats_the_approval():
    with H.rpc("agent") as c, H.rpc() as o:
        ref = submit(c)
        H.policy("version: 1\nrules: [{id: no, decision: deny, kinds: [run_code]}]\n")
        e, _ = o.refused("approval.decide", id=ref["approvalId"], sha256=ref["sha256"], decision="approve")
        eq(e and e.code, -32004)
        eq(H.audit("request.claimed", id=ref["approvalId"]), [])
        os.unlink(H.policy_file)
        submit(c, noWait=True)


try:
    lib.main()
finally:
    H.close()
