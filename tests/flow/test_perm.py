#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Whose sockets, folders and files: another uid, symlinks, foreign and open folders, another
# BOXGATE_HOME, policy and audit files with wrong owners or modes.
import json
import os
import shutil
import socket
import stat
import subprocess

import lib
from lib import NOBODY, BIN, Home, Skip, eq, has, need_root, test, wait_for

AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


class UserHome(Home):
    """A home of an unprivileged user, with a copy of the programs that it may run."""

    def __init__(self, **kw):
        need_root()
        super().__init__(mode=0o755, **kw)
        for name in ("boxgate", "boxgate-guest"):
            shutil.copy(os.path.join(os.path.dirname(BIN), name), self.tmp)
        self.bin = os.path.join(self.tmp, "boxgate")
        self.env.pop("BOXGATE_GUEST", None)
        self.own(self.tmp)

    def own(self, top):
        os.chown(top, NOBODY, NOBODY)
        for root, dirs, files in os.walk(top):
            for n in dirs + files:
                os.chown(os.path.join(root, n), NOBODY, NOBODY, follow_symlinks=False)

    def user(self, *args, stdin=b"", env=None):
        p = subprocess.run([*AS_NOBODY, self.bin, *args], input=stdin, env=env or self.env, capture_output=True,
                           timeout=30 * lib.SLOW, cwd="/")
        return lib.Result(p.returncode, p.stdout, p.stderr)

    def close(self):
        try:
            self.user("server", "stop", "--force")
        finally:
            shutil.rmtree(self.tmp, ignore_errors=True)


@test
def folders_and_sockets_are_ours_alone():
    with Home().start() as h:
        for d in ("config", "state", "run", "cache"):
            eq(stat.S_IMODE(os.stat(os.path.join(h.path, d)).st_mode), 0o700, d)
        for s in ("agent.sock", "operator.sock"):
            eq(stat.S_IMODE(os.stat(os.path.join(h.runtime, s)).st_mode), 0o600, s)
        h.ok("audit", "verify")
        for root, _, files in os.walk(h.path):
            for f in files:
                assert not os.stat(os.path.join(root, f)).st_mode & 0o077, f


@test
def another_uid_is_refused_on_both_sockets():
    need_root()
    with Home(mode=0o755).start() as h:
        os.chmod(h.path, 0o755)
        os.chmod(h.runtime, 0o755)
        code = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(9)\ntry:\n s.connect(sys.argv[1])\n" \
               "except PermissionError:\n print('closed door'); sys.exit()\n" \
               "try:\n s.sendall(sys.argv[2].encode()+b'\\n')\n print(s.recv(999) or 'hung up')\n" \
               "except OSError:\n print('hung up')\n"
        for name, want in (("agent.sock", "agent"), ("operator.sock", "operator")):
            path = os.path.join(h.runtime, name)
            hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {
                "proto": 1, "client": {"name": "x", "version": "1"}, "want": want}})
            for mode, answer in ((0o600, "closed door"), (0o666, "hung up")):
                os.chmod(path, mode)
                p = subprocess.run([*AS_NOBODY, "/usr/bin/python3", "-c", code, path, hello], capture_output=True, text=True)
                eq(p.stdout.strip(), answer, f"{name} {mode:o} {p.stderr}")
        wait_for("its record", lambda: len(h.audit("refused", what="connection")) == 2)
        eq({r["uid"] for r in h.audit("refused", what="connection")}, {NOBODY})


@test
def as_a_user_it_works_from_init_to_run():
    with UserHome(config="") as h:
        h.own(h.tmp)
        r = h.user("init", "--provider", "local")
        eq(r.rc, 0, r)
        a = lib.Agent(h, [*AS_NOBODY, h.bin, "run", "--lang", "python"], b"import os; print(os.getuid())")
        row = wait_for("pending", lambda: [x for x in json.loads(h.user("pending", "--json").out or b"[]")
                                           if x["state"] == "pending"] or (a.ended() and [None]))[0]
        if row is None:
            raise Skip(f"no unprivileged sandbox here: {a.wait().why.splitlines()[-1]}")
        eq(h.user("approve", str(row["id"]), "--sha", row["sha256"]).rc, 0)
        r = a.wait()
        eq((r.rc, r.out), (0, b"1000\n"), r)


@test
def root_does_not_use_a_users_server():
    with UserHome() as h:
        r = h.user("server")
        if r.rc:
            raise Skip(f"no server as that user: {r.why}")
        r = h.cmd("pending")
        assert r.rc != 0, "root and the user are two principals"


def refuses(h, why, run=None):
    r = (run or h.cmd)("run", "--lang", "python", stdin=b"print(1)")
    eq((r.rc, r.out), (125, b""), r)
    has(r.why, why)


@test
def a_runtime_folder_behind_a_symlink_is_refused():
    with Home() as h:
        other = os.path.join(h.tmp, "elsewhere")
        os.makedirs(other, 0o700)
        os.symlink(other, h.runtime)
        refuses(h, "symbolic link")
        eq(os.listdir(other), [], "nothing was put there")


@test
def a_runtime_folder_that_others_may_enter_is_refused():
    with Home() as h:
        os.makedirs(h.runtime, 0o700)
        os.chmod(h.runtime, 0o750)
        refuses(h, "0750")
        os.chmod(h.runtime, 0o700)
        h.start()


@test
def a_foreign_runtime_folder_is_refused():
    with UserHome() as h:
        os.makedirs(h.runtime, 0o700)
        os.chown(h.runtime, 0, 0)
        refuses(h, "uid 0", run=h.user)
    with UserHome() as h:
        os.makedirs(h.runtime, 0o700)
        os.chown(h.runtime, NOBODY, NOBODY)
        refuses(h, f"uid {NOBODY}", run=h.cmd)


@test
def a_foreign_state_folder_is_refused():
    with UserHome() as h:
        os.makedirs(os.path.join(h.path, "state"), 0o700)
        refuses(h, "state", run=h.user)


@test
def another_home_is_another_server_and_can_not_decide_here():
    with Home().start() as h, Home().start() as other:
        a = h.run("print('mine')")
        row = h.pending()
        eq(other.rows(), [])
        eq(other.cmd("approve", str(row["id"]), "--sha", row["sha256"]).rc, 3)
        # The other server's sockets under our name: its hello names its own folders.
        shutil.rmtree(os.path.join(other.tmp, "x"), ignore_errors=True)
        mixed = Home()
        os.makedirs(mixed.runtime, 0o700)
        for s in ("agent.sock", "operator.sock"):
            os.symlink(os.path.join(other.runtime, s), os.path.join(mixed.runtime, s))
        for sub in (["pending"], ["run", "--lang", "python"]):
            r = mixed.cmd(*sub, stdin=b"print(1)")
            assert r.rc in (1, 125), r
            has(r.why, "another config folder")
        shutil.rmtree(mixed.tmp)
        eq(h.approve(row).rc, 0)
        eq(a.wait().out, b"mine\n")


@test
def a_relative_home_is_refused():
    with Home() as h:
        r = h.cmd("pending", env=dict(h.env, BOXGATE_HOME="relative/home"))
        assert r.rc in (1, 2), r
        has(r.why, "BOXGATE_HOME")


@test
def a_policy_others_may_write_switches_every_allow_off():
    allow = "version: 1\nrules:\n  - id: ok\n    decision: allow\n    kinds: [run_code]\n    languages: [sh]\n" \
            "    sandbox: {provider: local, imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: true}\n" \
            "  - {id: no-py, decision: deny, languages: [python], message: no python}\n"
    with Home() as h:
        h.policy(allow)
        h.start()
        eq(h.run("echo allowed", lang="sh").wait().out, b"allowed\n")
        r = h.run("print(1)").wait()
        eq(r.rc, 125, r)
        has(r.why, "no python")
        for break_it in (lambda: os.chmod(h.policy_file, 0o666), lambda: h.policy("version: 1\nrules: [")):
            h.policy(allow)
            eq(h.run("echo again", lang="sh").wait().out, b"again\n")
            break_it()
            eq(h.cmd("policy", "check").rc, 1)
            a = h.run("echo allowed", lang="sh")
            row = h.pending()
            r = h.run("print(2)").wait()
            eq(r.rc, 125, "its denies stay")
            h.ok("deny", str(row["id"]))
            a.wait()
            h.ok("forget-deny")
            eq(h.cmd("doctor").rc, 1)


@test
def a_policy_of_another_owner_is_not_read():
    need_root()
    with Home() as h:
        h.policy("version: 1\nrules: []\n")
        os.chown(h.policy_file, NOBODY, NOBODY)
        h.start()
        r = h.cmd("policy", "check")
        eq(r.rc, 1, r)
        has(r.why, f"uid {NOBODY}")
        a = h.run("print('asked')")
        h.approve(h.pending())
        eq(a.wait().out, b"asked\n")


@test
def an_invalid_config_is_told_with_its_line():
    with Home(config="version: 1\nprovider: local\nprofil: x\n") as h:
        for sub in (["run", "--lang", "sh"], ["server"], ["config", "show"], ["pending"]):
            r = h.cmd(*sub)
            eq(r.rc, 2, (sub, r))
            has(r.why, ":3:1")


@test
def the_servers_memory_is_closed_to_the_same_uid():
    with UserHome() as h:
        if h.user("server").rc:
            raise Skip("no server as that user")
        pid = json.loads(h.user("server", "status", "--json").out)["pid"]
        p = subprocess.run([*AS_NOBODY, "cat", f"/proc/{pid}/environ"], capture_output=True)
        assert p.returncode != 0 and p.stdout == b"", "the server is dumpable"


lib.main()
