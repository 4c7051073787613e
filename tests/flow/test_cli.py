#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# What needs no server: help, usage, init, doctor, config show, policy check and explain,
# themes, audit without a store; and what is said when there is no config.
import json
import os
import pty
import re
import subprocess

import lib
from lib import BIN, Home, eq, has, need_root, test

HINT = "boxgate: no provider chosen; run: boxgate init --provider local\n"


def commands():
    with open(os.path.join(lib.SRC, "core/cli/table.c")) as f:
        return [c.replace("_", " ") for c in re.findall(r"&cmd_(\w+),", f.read())]


def real_name(name):
    return "forget-deny" if name == "forget deny" else name


@test
def every_command_has_help():
    with Home(config="") as h:
        names = [real_name(n) for n in commands()]
        assert len(names) > 20
        general = h.ok("help").text
        for name in names:
            has(general, f"  {name} ")
            one, two = h.ok("help", *name.split()).text, h.ok(*name.split(), "--help").text
            eq(one, two, name)
            assert one.startswith(f"usage: boxgate {name}"), one
            assert "--autostarted" not in one
            for line in one.splitlines():
                assert len(line) <= 100, line
        eq(os.path.exists(h.path), False, "help touches nothing")


@test
def wrong_words_are_usage_errors():
    with Home() as h:
        for args, part in ((["aprove", "1"], "did you mean: boxgate approve"), (["run", "--nosuch"], "--nosuch"),
                           (["run", "a", "b"], "too many"), (["session"], "one of these"), (["show"], "needs"),
                           (["run", "--lang"], "--lang"), (["run", "--timeout", "soon", "x.py"], "60s"),
                           (["audit", "tail", "-n", "x"], "-n"), (["session", "rm"], "--all"),
                           (["session", "create", "--id", "a b"], "session id"), (["deny", "x"], "number"),
                           (["exec", "s"], "needs"), (["audit", "export"], "--jsonl"),
                           (["init", "--provider", "docker"], "container")):
            r = h.cmd(*args)
            eq(r.rc, 2, (args, r))
            has(r.why, part)
            eq(r.out, b"")


@test
def without_a_config_the_next_step_is_named():
    with Home(config="") as h:
        for args in (["run", "--lang", "sh"], ["pending"], ["pending", "--watch"], ["sessions"], ["show", "1"],
                     ["approve", "1", "--sha", "0" * 16], ["server"], ["server", "--foreground"], ["server", "status"],
                     ["session", "create"], ["exec", "s", "--", "true"], ["sweep"], ["forget-deny"]):
            r = h.cmd(*args)
            eq((r.rc, r.out), (2, b""), (args, r))
            has(r.why, HINT)


@test
def init_shows_writes_and_never_overwrites():
    with Home(config="") as h:
        r = h.cmd("init")
        eq(r.rc, 2, r)
        has(r.why, "--provider local|container")
        eq(os.path.exists(h.config_file), False)
        r = h.ok("init", "--provider", "local")
        has(r.text, "local      available")
        has(r.text, "enforces: ")
        has(r.text, "container  ")
        has(r.why, "next: boxgate opens the console")
        eq(os.stat(h.config_file).st_mode & 0o777, 0o600)
        with open(h.config_file) as f:
            before = f.read()
        r = h.cmd("init", "--provider", "container")
        eq(r.rc, 1, r)
        has(r.why, "--force")
        with open(h.config_file) as f:
            eq(f.read(), before)
        r = h.ok("init", "--provider", "container", "--endpoint", "unix:///nowhere.sock", "--force")
        has(r.why, "not available now")
        text = h.ok("config", "show").text
        has(text, "provider: container")
        has(text, "unix:///nowhere.sock")
        r = h.cmd("init", "--provider", "local", "--endpoint", "unix:///x", "--force")
        eq(r.rc, 2, r)


@test
def init_asks_on_a_terminal():
    with Home(config="") as h:
        for answer, chosen in ((b"nonsense\nlocal\n", True), (b"\x04", False), (b"\n\n\n", False)):
            pid, fd = pty.fork()
            if pid == 0:
                os.execve(BIN, [BIN, "init", "--force"], dict(h.env, TERM="xterm"))
            out = b""
            while b"local or container:" not in out:
                out += os.read(fd, 4096)
            os.write(fd, answer)
            try:
                while True:
                    d = os.read(fd, 4096)
                    if not d:
                        break
                    out += d
            except OSError:
                pass
            rc = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(fd)
            eq(rc, 0 if chosen else 2, out)
            assert (b"one of the two words" in out) == (answer != b"\x04"), out
            eq(os.path.exists(h.config_file), True if chosen else False, out)
            if chosen:
                os.unlink(h.config_file)


@test
def doctor_says_what_is_wrong_and_what_helps():
    with Home(config="") as h:
        r = h.cmd("doctor")
        eq(r.rc, 1, r)
        has(r.text, "remedy: boxgate init --provider local")
        has(r.text, "boundary: ")
        h.ok("init", "--provider", "local")
        r = h.ok("doctor")
        has(r.text, "a trial sandbox ran")
        rows = json.loads(h.ok("doctor", "--json").out)
        assert {"guest", "config", "policy", "provider local", "server", "boundary"} <= {x["check"] for x in rows}
        h.policy("version: 1\nrules: {}\n")
        eq(h.cmd("doctor").rc, 1)
        os.unlink(h.policy_file)
        os.chmod(os.path.join(h.path, "config"), 0o755)
        r = h.cmd("doctor")
        eq(r.rc, 1, r)
        has(r.text, "remedy: chmod 700 ")
        os.chmod(os.path.join(h.path, "config"), 0o700)
        h.ok("server")
        has(h.ok("doctor").text, "server: pid ")


@test
def doctor_says_that_a_disk_is_full_or_read_only():
    need_root()
    for options, part in (("size=1m", "MiB are free"), ("size=1m,ro", "can't be made: ")):
        with Home(config="") as h:
            disk = os.path.join(h.tmp, "disk")
            os.mkdir(disk)
            fill = "" if "ro" in options else "mkdir -m 700 state; dd if=/dev/zero of=fill bs=64k 2>/dev/null; "
            script = f"mount -t tmpfs -o {options} none '{disk}' && cd '{disk}' && {fill} '{BIN}' doctor"
            p = subprocess.run(["unshare", "-m", "bash", "-c", script], env=dict(h.env, BOXGATE_HOME=disk),
                               capture_output=True, text=True)
            eq(p.returncode, 1, p)
            has(p.stdout, f"fail  state folder: {disk}/state")
            has(p.stdout, part)


@test
def config_show_reads_back_as_itself():
    with Home() as h:
        text = h.ok("config", "show").text
        h.put(h.config_file, text)
        eq(h.ok("config", "show").text, text)


RULE = """version: 1
rules:
  - id: ok-sh
    decision: allow
    kinds: [run_code]
    languages: [sh]
    sandbox: {provider: local, imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: true}
  - {id: no-words, decision: deny, codeContains: [rm -rf], message: "no"}
"""


@test
def policy_check_and_explain():
    with Home() as h:
        has(h.ok("policy", "check").text, "policy: ok, 0 rules")
        eq(h.cmd("policy", "check", "/no/such/file").rc, 3)
        path = h.file("p.yaml", "version: 1\nrules:\n  - {id: x, decision: allow, kinds: [run_code]}\n")
        os.chmod(path, 0o600)
        r = h.cmd("policy", "check", path)
        eq(r.rc, 1, r)
        has(r.why, "p.yaml:3")
        h.policy(RULE)
        has(h.ok("policy", "check").text, "2 rules")

        def explain(stdin, *more):
            return h.cmd("policy", "explain", "--json", *more, stdin=json.dumps(stdin).encode())
        j = json.loads(explain({"kind": "run_code", "language": "sh", "code": "echo 1"}).out)
        eq((j["decision"], j["rule"]), ("allow", "ok-sh"))
        j = json.loads(explain({"kind": "run_code", "language": "sh", "code": "echo \u202e"}).out)
        eq((j["decision"], j["downgraded"]), ("ask", True))
        j = json.loads(explain({"kind": "run_code", "language": "sh", "code": "rm -rf /"}).out)
        eq((j["decision"], j["rule"], j["message"]), ("deny", "no-words", "no"))
        j = json.loads(explain({"kind": "run_code", "language": "sh", "sandbox": {"network": "host"}}).out)
        eq(j["decision"], "ask")
        eq([r["failed"] for r in j["rules"] if r["id"] == "ok-sh"], ["sandbox.network"])
        j = json.loads(explain({"kind": "exec", "command": "ls"}).out)
        eq(j["decision"], "ask")
        r = h.cmd("policy", "explain", stdin=b'{"kind": "run_code", "language": "sh"}')
        has(r.text, "decision: allow (rule ok-sh)")
        for bad in (b"", b"{}", b'{"kind": "run_code", "unknown": 1}', b'{"kind": "exec", "kind": "run_code"}',
                    b'{"kind": "run_code", "sandbox": {"mounts": "some"}}', b"[]"):
            r = h.cmd("policy", "explain", stdin=bad)
            eq(r.rc, 2, (bad, r))


@test
def themes_lists_your_own():
    with Home() as h:
        os.makedirs(os.path.join(h.path, "config/themes"))
        h.file("home/config/themes/mine\x1b[31m.yaml", "x")
        out = h.ok("themes").out
        assert b"\x1b" not in out, out
        has(out, b"mine\\x1b[31m")
        assert any(r["name"].startswith("mine") for r in json.loads(h.ok("themes", "--json").out))


@test
def audit_without_a_store():
    with Home() as h:
        for sub in (["tail"], ["verify"], ["export", "--jsonl"]):
            r = h.cmd("audit", *sub)
            eq(r.rc, 3, r)
            has(r.why, "no audit store")


@test
def the_version():
    with Home(config="") as h:
        with open(os.path.join(lib.SRC, "core/base/values.h")) as f:
            version = re.search(r'BG_VERSION "(.*)"', f.read()).group(1)
        eq(h.ok("--version").text, f"boxgate {version}\n")


@test
def two_runtime_folders_of_one_state_folder_are_named():
    with Home(config="") as h:
        env = {k: v for k, v in h.env.items() if k != "BOXGATE_HOME"}
        here, there = (dict(env, XDG_RUNTIME_DIR=os.path.join(h.tmp, d)) for d in ("a", "b"))
        for e in (here, there):
            os.mkdir(e["XDG_RUNTIME_DIR"], 0o700)
        h.ok("init", "--provider", "local", env=here)
        h.ok("server", env=here)
        try:
            r = h.cmd("server", env=there)
            eq(r.rc, 1, r)
            has(r.why, "its sockets are in " + os.path.join(here["XDG_RUNTIME_DIR"], "boxgate"))
        finally:
            h.ok("server", "stop", "--force", env=here)


@test
def the_newest_records_fit_a_line_a_person_reads():
    with Home() as h:
        a = h.run("print(1)")
        h.approve(h.pending())
        eq(a.wait().rc, 0)
        text = h.ok("audit", "tail").text
        has(text, " spec={...}")
        assert max(len(x) for x in text.splitlines()) < 600, text
        for word in text.split():
            assert len(word) < 120, word
        row = [x for x in json.loads(h.ok("audit", "tail", "--json").out) if x["event"] == "sandbox.create"][0]
        eq(row["spec"]["network"], "none")


@test
def a_full_disk_is_no_silence():
    with Home() as h, open("/dev/full", "wb") as full:
        p = subprocess.run([BIN, "config", "show"], env=h.env, stdout=full, stderr=subprocess.PIPE)
        eq(p.returncode, 1, p)
        has(p.stderr.decode(), "boxgate: cannot write to standard output: No space left on device")


@test
def a_closed_pipe_is_quiet():
    with Home() as h:
        p = subprocess.run(["bash", "-c", f"'{BIN}' config show | head -c 1; echo ${{PIPESTATUS[0]}}"], env=h.env,
                           capture_output=True, text=True)
        assert p.stdout in ("v0\n", "v130\n") and p.stderr == "", p


lib.main()
