#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# policy.yaml and a project's .boxgate.yaml on a running server: what they let through, and what not.

import os
import tempfile

import lib
from lib import Home, eq, has, test

H = Home(approvals="noConsoleMs: 60000, denyMemoryMs: 1")
SANDBOX = "{provider: local, imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: true}"


def rule(extra):
    return f"version: 1\nrules:\n  - {{id: mine, decision: allow, sandbox: {SANDBOX}, {extra}}}\n"


def rule_hash(row):
    text = H.ok("show", str(row["id"])).text
    return [x.split(": ")[1] for x in text.splitlines() if x.startswith("hash for a rule: ")][0]


@test
def a_hash_rule_lets_the_same_bytes_through_in_any_session():
    code = "print('known')\n"
    a = H.run(code)
    row = H.pending()
    sha = rule_hash(row)
    assert sha != row["sha256"], "a rule's hash must not hold the session"
    eq(H.cmd("deny", str(row["id"]), "--reason", "by rule next time").rc, 0)
    eq(a.wait().rc, 125)
    H.policy(rule(f"kinds: [run_code], hash: [{sha}]"))
    r = H.run(code).wait()
    eq((r.rc, r.out), (0, b"known\n"), f"the ruled one: {r}")
    eq(H.audit("request.decided", decision="approve")[-1]["rule"], "mine")
    b = H.run(code + " ")
    other = H.pending()
    eq(H.cmd("deny", str(other["id"])).rc, 0)
    eq(b.wait().rc, 125)


@test
def a_deny_beats_an_allow_and_its_message_reaches_the_requester():
    H.policy(rule("kinds: [run_code], languages: [python]")
             + "  - {id: no, decision: deny, codeContains: [socket], message: no sockets here}\n")
    eq(H.run("print(1)").wait().rc, 0)
    r = H.run("import socket").wait()
    eq(r.rc, 125)
    has(r.err.decode(), "no sockets here")


@test
def a_hazard_turns_allow_into_ask():
    H.policy(rule("kinds: [run_code], languages: [python]"))
    a = H.run("print('\u202e')")
    row = H.pending()
    eq(row["hazards"], ["bidi"])
    eq(H.cmd("deny", str(row["id"])).rc, 0)
    a.wait()


@test
def a_broken_policy_turns_every_allow_off():
    H.policy("version: 1\nrules: [\n")
    a = H.run("print(2)")
    eq(H.cmd("deny", str(H.pending()["id"])).rc, 0)
    eq(a.wait().rc, 125)
    H.policy(rule("kinds: [run_code], languages: [python]"))
    eq(H.run("print(3)").wait().rc, 0)


@test
def a_projects_file_only_tightens():
    with tempfile.TemporaryDirectory() as project:
        path = os.path.join(project, ".boxgate.yaml")
        here = ["env", "-C", project]
        with open(path, "w") as f:
            f.write("version: 1\nrules: [{id: quiet, decision: deny, kinds: [run_code], message: not in this project}]\n")
        r = H.agent("run", "--lang", "python", stdin=b"print(4)", prefix=here).wait()
        eq(r.rc, 125)
        has(r.err.decode(), "not in this project")
        eq(H.run("print(5)").wait().rc, 0)
        with open(path, "w") as f:
            f.write(rule("kinds: [exec], argv: [{exact: ls}]"))
        r = H.agent("run", "--lang", "python", stdin=b"print(6)", prefix=here).wait()
        eq(r.rc, 125)
        has(r.err.decode(), ".boxgate.yaml")


try:
    lib.main()
finally:
    H.close()
