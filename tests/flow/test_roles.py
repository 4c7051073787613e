#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Every method of the server's table on both sockets and in every role, and the wire's own
# rules: hello first, unknown params refused, malformed lines answered or cut off.
import json
import os
import re
import socket

import lib
from lib import Home, Rpc, eq, has, test

H = Home().start()
BITS = {"ROLE_AGENT": {"agent"}, "ROLE_OPERATOR": {"operator"}, "ROLE_OBSERVER": {"observer"},
        "ROLE_ANY": {"agent", "operator", "observer"}}


def table():
    with open(os.path.join(lib.SRC, "core/server/methods.c")) as f:
        text = f.read()
    rows = re.findall(r'\{"([a-z.]+)",\s*(ROLE_[A-Z_| ]+?),\s*\w+\}', text)
    assert len(rows) >= 15, "the table was not found"
    return {name: set().union(*(BITS[b] for b in re.findall(r"ROLE_\w+", roles))) for name, roles in rows}


METHODS = table()
QUIET = {"bye", "server.stop", "hello"}  # would end the connection or the server, or were said


@test
def an_agent_may_call_only_what_changes_nothing_but_its_own_requests():
    eq({m for m, roles in METHODS.items() if "agent" in roles},
       {"hello", "ping", "bye", "request.submit", "request.wait", "request.cancel", "session.list", "session.get"})


@test
def an_operator_can_not_submit():
    eq({m for m, roles in METHODS.items() if "operator" in roles and m.startswith("request.")}, set())


@test
def every_method_in_every_role():
    for role in ("agent", "operator", "observer"):
        with H.rpc(role) as c:
            for name, roles in sorted(METHODS.items()):
                if name in QUIET and role in roles:
                    continue
                e, _ = c.refused(name)
                if role in roles:
                    assert e is None or e.code != -32001, f"{role} may call {name}: {e}"
                else:
                    assert e and e.code == -32001, f"{role} must not call {name}: {e and e.code}"


@test
def a_role_of_the_other_socket_is_refused():
    for sock, wants in (("agent.sock", ("operator", "observer", "root", "")), ("operator.sock", ("agent",))):
        for want in wants:
            c = Rpc(os.path.join(H.runtime, sock), hello=False)
            e, _ = c.refused("hello", proto=1, client={"name": "x", "version": "1"}, want=want)
            assert e, f"{want} on {sock}"
            for name in sorted(METHODS):
                if name != "hello":
                    assert c.refused(name)[0], f"{name} before an accepted hello"
            c.close()


@test
def hello_comes_first_and_once():
    c = Rpc(os.path.join(H.runtime, "operator.sock"), hello=False)
    e, _ = c.refused("approval.list")
    eq(e.code, -32600)
    e, _ = c.refused("hello", proto=99, client={"name": "x", "version": "1"}, want="operator")
    eq(e.code, -32010)
    c.call("hello", proto=1, client={"name": "x", "version": "1"}, want="operator")
    assert c.refused("hello", proto=1, client={"name": "x", "version": "1"}, want="operator")[0]
    c.close()


@test
def unknown_methods_and_params_are_errors():
    with H.rpc() as c:
        eq(c.refused("no.such")[0].code, -32601)
        eq(c.refused("approval.list", everything=True)[0].code, -32602)
        eq(c.refused("approval.get", id="1")[0].code, -32602)
        eq(c.refused("approval.decide", id=1, sha256="0" * 64, decision="maybe")[0].code, -32602)
        eq(c.refused("approval.get", id=10**6)[0].code, -32002)
    with H.rpc("agent") as c:
        for body in ({}, {"code": "x"}, {"code": 1, "language": "python"}, {"code": "x", "language": "python", "user": "root"},
                     {"code": {"base64": "!"}, "language": "python"}):
            e, _ = c.refused("request.submit", kind="run_code", waitMs=1, body=body)
            assert e and e.code == -32602, (body, e)
        e, _ = c.refused("request.submit", kind="no_kind", body={})
        assert e
    eq(H.rows(), [])


def raw(data, sock="operator.sock"):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10 * lib.SLOW)
    s.connect(os.path.join(H.runtime, sock))
    out = b""
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while True:
            d = s.recv(65536)
            if not d:
                break
            out += d
    except (BrokenPipeError, ConnectionResetError):
        pass
    s.close()
    return out


@test
def malformed_lines_do_not_pass():
    hello = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"proto":1,"client":{"name":"x","version":"1"},"want":"operator"}}\n'
    for bad in (b"\n", b"{}\n", b"[]\n", b"null\n", b"{\n", b"\xff\xfe\n", b"GET / HTTP/1.1\r\n\r\n",
                b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n', b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n',
                b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', b'{"jsonrpc":"2.0","id":1,"method":"pi\\u0000ng"}\n',
                b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', b"[" * 100000 + b"\n", hello + b'{"id":\n'):
        out = raw(bad)
        assert b'"result":{}' not in out, (bad[:40], out)
    with H.rpc() as c:
        eq(c.call("ping"), {})


@test
def too_long_lines_end_the_connection():
    out = raw(b"x" * 70000)
    assert b"result" not in out
    s = Rpc(os.path.join(H.runtime, "agent.sock"), "agent")
    try:
        s.s.sendall(b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"' + b"a" * (17 << 20))
        s.line()
        raise AssertionError("a line of 17 MiB was accepted")
    except (ConnectionError, BrokenPipeError):
        pass
    s.close()
    with H.rpc() as c:
        eq(c.call("ping"), {})


@test
def too_many_pending_are_refused():
    with H.rpc("agent") as c:
        for i in range(8):
            c.call("request.submit", kind="run_code", waitMs=0, body={"code": f"# {i}", "language": "sh"})
        e, _ = c.refused("request.submit", kind="run_code", waitMs=0, body={"code": "# one more", "language": "sh"})
        eq(e.code, -32008)
        e, _ = c.refused("request.submit", kind="run_code", waitMs=0, body={"code": "x" * (1 << 20) + "y", "language": "sh"})
        assert e, "more than 1 MiB of code"
    for row in H.rows():
        H.ok("deny", str(row["id"]))


@test
def the_same_call_id_with_other_bytes_is_a_conflict():
    with H.rpc("agent") as c:
        one = c.call("request.submit", kind="run_code", callId="c-1", waitMs=0, body={"code": "# a", "language": "sh"})
        same = c.call("request.submit", kind="run_code", callId="c-1", waitMs=0, body={"code": "# a", "language": "sh"})
        eq(same["approvalId"], one["approvalId"])
        e, _ = c.refused("request.submit", kind="run_code", callId="c-1", waitMs=0, body={"code": "# b", "language": "sh"})
        eq(e.code, -32006)
        c.call("request.cancel", approvalId=one["approvalId"], sha256=one["sha256"])


@test
def an_agent_with_a_run_id_sees_only_its_own_sessions():
    H.ok("session", "create", "--id", "op-1")
    with H.rpc("agent", runId="run-a") as c:
        eq(c.call("session.list"), [])
        eq(c.refused("session.get", session="op-1")[0].code, -32002)
    with H.rpc("agent") as c:
        has(json.dumps(c.call("session.list")), "op-1")
    H.ok("session", "rm", "op-1")


try:
    lib.main()
finally:
    H.close()
