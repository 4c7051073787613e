# SPDX-License-Identifier: MIT
# What the flow tests share: a BOXGATE_HOME of their own, the commands as an operator uses
# them, requests as an agent makes them, and the wire spoken by hand. A test is a function
# with @test; run(globals) runs them and prints one line each.
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SRC = os.environ.get("BOXGATE_SRC") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("BOXGATE_BUILD") or os.path.join(SRC, "build/release")
BIN = os.environ.get("BOXGATE_BIN") or os.path.join(BUILD, "boxgate")
SLOW = 4 if "san" in os.path.basename(BUILD) else 1  # sanitizers take their time
NOBODY = 65534


class Skip(Exception):
    pass


def wait_for(what, cond, secs=10):
    """Polls until cond() gives something true; that is returned."""
    end = time.monotonic() + secs * SLOW
    while True:
        v = cond()
        if v:
            return v
        if time.monotonic() > end:
            raise AssertionError(f"waited {secs} s in vain for: {what}")
        time.sleep(0.01)


def eq(got, want, what=""):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def has(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err
        self.text, self.why = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def __repr__(self):
        return f"rc {self.rc}, out {self.out[-2000:]!r}, err {self.err[-2000:]!r}"


class Agent:
    """A command as a child of nobody here: the operator must not be its relative."""

    SCRIPT = '"$@" <"$D/in" >"$D/out" 2>"$D/err" & echo $! >"$D/pid.new"; mv "$D/pid.new" "$D/pid"; ' \
             'wait $!; echo $? >"$D/rc.new"; mv "$D/rc.new" "$D/rc"'

    def __init__(self, home, args, stdin=b"", prefix=()):
        self.dir = tempfile.mkdtemp(prefix="agent.", dir=home.tmp)
        self.write("in", stdin)
        env = dict(home.env, D=self.dir)
        subprocess.run(["setsid", "-f", *prefix, "sh", "-c", self.SCRIPT, "sh", *args], env=env, check=True)

    def write(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as f:
            f.write(data)

    def read(self, name):
        try:
            with open(os.path.join(self.dir, name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    @property
    def pid(self):
        return int(wait_for("the agent's pid", lambda: self.read("pid")))

    def kill(self, signo):
        os.kill(self.pid, signo)

    def ended(self):
        return bool(self.read("rc"))

    def wait(self, secs=20):
        rc = int(wait_for(f"the agent to end; so far {self.read('err')!r}", lambda: self.read("rc"), secs))
        return Result(rc, self.read("out"), self.read("err"))


class Home:
    """Own folders; the server is stopped and everything removed at the end."""

    def __init__(self, approvals="", config=None, mode=0o700, where="/tmp"):
        self.tmp = tempfile.mkdtemp(prefix="bgf.", dir=where)
        os.chmod(self.tmp, mode)
        self.path = os.path.join(self.tmp, "home")
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.tmp,
            "LANG": "C.UTF-8",
            "BOXGATE_HOME": self.path,
        }
        for k in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "BOXGATE_GUEST"):
            if k in os.environ:
                self.env[k] = os.environ[k]
        self.config_file = os.path.join(self.path, "config/config.yaml")
        self.policy_file = os.path.join(self.path, "config/policy.yaml")
        self.runtime = os.path.join(self.path, "run")
        if config is None:
            config = "version: 1\nprovider: local\n"
        if approvals:
            config += f"approvals: {{{approvals}}}\n"
        if config:
            self.put(self.config_file, config)

    def put(self, path, text, mode=0o600):
        for d in (self.path, os.path.dirname(path)):
            os.makedirs(d, mode=0o700, exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)

    def policy(self, text, mode=0o600):
        self.put(self.policy_file, text, mode)

    def file(self, name, data):
        path = os.path.join(self.tmp, name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    # ---- commands ----

    def cmd(self, *args, stdin=b"", secs=30, env=None, prefix=()):
        p = subprocess.run([*prefix, BIN, *args], input=stdin, env=env or self.env, capture_output=True,
                           timeout=secs * SLOW)
        return Result(p.returncode, p.stdout, p.stderr)

    def ok(self, *args, **kw):
        r = self.cmd(*args, **kw)
        assert r.rc == 0, f"boxgate {' '.join(args)}: {r}"
        return r

    def agent(self, *args, stdin=b"", prefix=()):
        return Agent(self, [BIN, *args], stdin, prefix)

    def run(self, code, *opts, lang="python"):
        return self.agent("run", "--lang", lang, *opts, stdin=code if isinstance(code, bytes) else code.encode())

    def rows(self, want=None):
        r = self.cmd("pending", "--json")
        if r.rc:
            return []
        rows = [x for x in json.loads(r.out) if x["state"] == "pending"]
        return rows if want is None or len(rows) == want else []

    def pending(self, n=1):
        """Waits until exactly n requests are pending; the row, or the rows."""
        rows = wait_for(f"{n} pending", lambda: self.rows(n))
        return rows[0] if n == 1 else rows

    def approve(self, row, *opts):
        ack = ["--ack", ",".join(row["hazards"])] if row["hazards"] else []
        return self.cmd("approve", str(row["id"]), "--sha", row["sha256"], *ack, *opts)

    def approved_run(self, code, *opts, lang="python"):
        a = self.run(code, *opts, lang=lang)
        r = self.approve(self.pending())
        eq(r.rc, 0, f"approve: {r}")
        return a.wait()

    def audit(self, event=None, **members):
        rows = [json.loads(x) for x in self.ok("audit", "export", "--jsonl").text.splitlines()]
        return [r for r in rows if (event is None or r["event"] == event)
                and all(r.get(k) == v for k, v in members.items())]

    # ---- the server ----

    def start(self):
        """A server that stays, so that its start is no part of what a test waits for."""
        self.ok("server")
        return self

    def server_pid(self):
        r = self.cmd("server", "status", "--json")
        return json.loads(r.out)["pid"] if r.rc == 0 else None

    def crash(self):
        pid = self.server_pid()
        fd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        wait_for("the server to be gone", lambda: gone(fd))
        os.close(fd)

    def rpc(self, role="operator", **kw):
        path = os.path.join(self.runtime, "agent.sock" if role == "agent" else "operator.sock")
        if role != "agent":
            return Rpc(path, role, **kw)
        # Connected by a process that is nobody's relative here, else this test could decide nothing.
        back = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = os.path.join(self.tmp, f"back.{time.monotonic_ns()}")
        back.bind(name)
        back.listen(1)
        subprocess.run(["setsid", "-f", sys.executable, os.path.abspath(__file__), "connect", path, name], check=True)
        conn = back.accept()[0]
        _, fds, _, _ = socket.recv_fds(conn, 1, 1)
        back.close()
        return Rpc(path, role, sock=socket.socket(fileno=fds[0]), owner=conn, **kw)

    def close(self):
        try:
            self.cmd("server", "stop", "--force", secs=40)
        finally:
            shutil.rmtree(self.tmp, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def gone(pidfd):
    import select
    return bool(select.select([pidfd], [], [], 0)[0])


class RpcError(Exception):
    def __init__(self, e):
        super().__init__(e.get("message"))
        self.code, self.cls = e["code"], (e.get("data") or {}).get("class")


class Rpc:
    """The wire by hand."""

    def __init__(self, path, role="operator", hello=True, secs=20, sock=None, owner=None, **hello_more):
        self.owner = owner  # the other end of the process that connected; it stays as long as this
        self.s = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(secs * SLOW)
        if not sock:
            self.s.connect(path)
        self.buf = b""
        self.events = []
        self.next = 0
        if hello:
            self.hello = self.call("hello", proto=1, client={"name": "flow", "version": "1"}, want=role, **hello_more)

    def send(self, method, **params):
        self.next += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        self.s.sendall(line.encode() + b"\n")
        return self.next

    def line(self):
        while b"\n" not in self.buf:
            d = self.s.recv(1 << 16)
            if not d:
                raise ConnectionError("the server closed the connection")
            self.buf += d
        line, self.buf = self.buf.split(b"\n", 1)
        return json.loads(line)

    def answer(self, want):
        while True:
            m = self.line()
            if m.get("method") == "event":
                self.events.append(m["params"])
            elif m.get("id") == want:
                if "error" in m:
                    raise RpcError(m["error"])
                return m["result"]

    def call(self, method, **params):
        return self.answer(self.send(method, **params))

    def refused(self, method, **params):
        try:
            return None, self.call(method, **params)
        except RpcError as e:
            return e, None

    def close(self):
        self.s.close()
        if self.owner:
            self.owner.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect_for(path, back):
    """What Home.rpc starts: connect, hand the connection over, stay as long as it is used."""
    with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX) as b:
        s.connect(path)
        b.connect(back)
        socket.send_fds(b, [b"x"], [s.fileno()])
        b.recv(1)


# ---- running ----

_tests = []


def test(fn):
    _tests.append(fn)
    return fn


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root to become another uid")


def main():
    only = sys.argv[1:]
    failed = 0
    for fn in _tests:
        name = fn.__name__
        if only and name not in only:
            continue
        began = time.monotonic()
        try:
            fn()
            print(f"ok {name} ({time.monotonic() - began:.2f} s)", flush=True)
        except Skip as e:
            print(f"skip {name}: {e}", flush=True)
        except BaseException:
            failed += 1
            print(f"not ok {name}", flush=True)
            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)


if __name__ == "__main__" and sys.argv[1:2] == ["connect"]:
    connect_for(*sys.argv[2:])
