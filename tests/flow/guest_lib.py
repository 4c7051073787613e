# SPDX-License-Identifier: MIT
"""The server's side of the guest link, for tests: nothing of ours but the wire's numbers."""
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

GUEST = os.environ.get("BOXGATE_GUEST", "build/release/boxgate-guest")
MAGIC = 0x31474742
FRAME_MAX = 65536
CREDIT = 262144
RING = 65536
HELLO, STARTED, STDOUT, STDERR, EXIT, ERROR, STDIN_CREDIT, STATE, STATS, KILLED, GAP, PONG = range(1, 13)
WELCOME, EXEC, STDIN, CREDIT_OUT, KILL, QUERY, GET_STATS, FORGET, PING, SHUTDOWN = range(64, 74)
F_MORE, F_EOF, F_TAIL = 1, 2, 4
EXITED, DEADLINE, WHY_KILLED, SUPERVISOR_LOST, OOM = range(5)
NOENT, ACCES, CWD, LIMIT, BAD, UNKNOWN, OTHER = range(1, 8)
TEST_UID = 2063596999
AS_USER = ["setpriv", "--reuid", str(TEST_UID), "--regid", str(TEST_UID), "--clear-groups", "--inh-caps=-all"]
ENV = [b"PATH=/usr/bin:/bin"]


def blob_of(argv, env, cwd):
    out = b""
    for s in [*argv, *env, cwd]:
        s = s.encode() if isinstance(s, str) else s
        out += struct.pack("<I", len(s)) + s
    return out


class Exit:
    def __init__(self, raw):
        (self.code, self.signal, self.why, self.leftover, self.oom,
         self.ms) = struct.unpack("<iiIIII", raw)

    def __repr__(self):
        return f"Exit({self.__dict__})"


class Run:
    """One command: what came of it so far."""

    def __init__(self, stdin, auto, credit):
        self.out, self.err, self.gaps = bytearray(), bytearray(), []
        self.started = self.exit = self.error = self.text = None
        self.state = self.killed = self.exits = None
        self.exits = 0
        self.stdin, self.sent, self.eof_sent = stdin, 0, False
        self.in_credit = CREDIT
        self.auto = auto
        self.granted = [credit, credit]

    @property
    def over(self):
        return self.exit is not None or self.error is not None


class Link:
    def __init__(self, sock, epoch, hello):
        self.s, self.epoch, self.hello = sock, epoch, hello
        self.buf, self.outq = bytearray(), bytearray()
        self.open = True


class Guest:
    """A guest and the listener it dials. how: plain | user (plain, unprivileged) | pid1
    (PID 1 of a bubblewrap, as user 1000) | root1 (the same as root)."""

    def __init__(self, how="plain", linger=60000, empty=60000, token=None, wrap=()):
        self.dir = tempfile.mkdtemp(prefix="bgguest")
        os.chmod(self.dir, 0o755)
        self.path = self.dir + "/s"
        self.linger, self.empty = linger, empty
        self.epoch, self.runs, self.stats, self.pongs = 100, {}, {}, []
        self.listener = None
        self.listen()
        self.how = how
        env = {"PATH": "/usr/bin:/bin"}
        if how in ("plain", "user"):
            argv = [GUEST]
            if how == "user":
                argv = [*AS_USER, shutil.copy(GUEST, self.dir + "/guest")]
                os.chown(self.dir, TEST_UID, TEST_UID)
            env["BOXGATE_LINK"] = self.path
            if token:
                env["BOXGATE_TOKEN"] = token
        else:
            argv = bwrap_argv(self.dir, how, token)
        self.p = self.link = None
        try:
            self.p = subprocess.Popen([*wrap, *argv], env=env, stdin=subprocess.DEVNULL)
            self.accept()
        except BaseException:
            self.close()
            raise

    def listen(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(4)

    def accept(self, welcome=True, timeout=10):
        self.listener.settimeout(timeout)
        s, _ = self.listener.accept()
        raw = b""
        s.settimeout(timeout)
        while len(raw) < 64:
            more = s.recv(64 - len(raw))
            assert more, "the guest closed before its hello"
            raw += more
        n, ident, kind, _, _ = struct.unpack("<IIHHI", raw[:16])
        assert (n, ident, kind) == (48, 0, HELLO), raw
        self.epoch += 1
        self.link = Link(s, self.epoch, struct.unpack("<IHH32sII", raw[16:]))
        self.link.ids = struct.unpack("iii", s.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        s.setblocking(False)
        for r in self.runs.values():
            r.granted = [r.first_credit + len(r.out), r.first_credit + len(r.err)]
        if welcome:
            self.send(WELCOME, 0, struct.pack("<IIII", MAGIC, self.epoch, self.linger, self.empty))

    def drop(self):
        self.link.s.close()
        self.link.open = False

    def raw(self, data):
        self.link.outq += data

    def send(self, kind, ident, payload=b"", flags=0, epoch=None):
        epoch = self.epoch if epoch is None else epoch
        self.raw(struct.pack("<IIHHI", len(payload), ident, kind, flags, epoch) + payload)

    def exec(self, ident, argv, env=ENV, cwd="/", deadline=0, credit=CREDIT, flags=0, stdin=b"",
             auto=True, uid=0, gid=0, blob=None, piece=FRAME_MAX - 32):
        blob = blob_of(argv, env, cwd) if blob is None else blob
        head = struct.pack("<IIIIIIII", len(argv), len(env), deadline, len(blob), uid, gid, credit, 0)
        r = self.runs[ident] = Run(stdin, auto, credit)
        r.first_credit = credit
        parts = [blob[i:i + piece] for i in range(0, len(blob), piece)] or [b""]
        for i, part in enumerate(parts):
            more = F_MORE if i + 1 < len(parts) else 0
            self.send(EXEC, ident, (head if i == 0 else b"") + part, flags | more)
        self.feed(ident)
        return r

    def feed(self, ident):
        r = self.runs[ident]
        if r.stdin is None or r.over or r.eof_sent:
            return
        while True:
            n = min(FRAME_MAX, r.in_credit, len(r.stdin) - r.sent)
            last = r.sent + n == len(r.stdin)
            if n == 0 and not last:
                return
            self.send(STDIN, ident, r.stdin[r.sent:r.sent + n], F_EOF if last else 0)
            r.sent += n
            r.in_credit -= n
            if last:
                r.eof_sent = True
                return

    def credit(self, ident, stream, n):
        self.runs[ident].granted[stream - 1] += n
        self.send(CREDIT_OUT, ident, struct.pack("<BxxxI", stream, n))

    def frame(self, ident, kind, p):
        r = self.runs.get(ident)
        if kind == PONG:
            self.pongs.append(ident)
        elif kind == STATS:
            self.stats[ident] = struct.unpack("<QQQII", p)
        elif r is None:
            raise AssertionError(f"a frame of type {kind} for an unknown id {ident}")
        elif kind == STARTED:
            assert r.started is None, "started twice"
            r.started = struct.unpack("<i", p)[0]
        elif kind in (STDOUT, STDERR):
            assert r.started is not None or r.state, "output before the start was told"
            b = r.out if kind == STDOUT else r.err
            b += p
            assert len(b) <= r.granted[kind - STDOUT], "more bytes than credit"
            assert r.exits == 0, "output after exit"
            if r.auto:
                self.credit(ident, kind - STDOUT + 1, len(p))
        elif kind == EXIT:
            assert r.started is not None or r.state, "an exit before the start was told"
            r.exit = Exit(p)
            r.exits += 1
            assert r.exits == 1, "exit told twice"
        elif kind == ERROR:
            r.error = struct.unpack("<Ii", p[:8])
            r.text = p[8:].decode()
        elif kind == STDIN_CREDIT:
            r.in_credit += struct.unpack("<I", p)[0]
            assert r.in_credit <= CREDIT, "more stdin credit than there ever was"
            self.feed(ident)
        elif kind == STATE:
            r.state = (struct.unpack("<I", p[:4])[0], Exit(p[4:]))
        elif kind == KILLED:
            r.killed = struct.unpack("<I", p)[0]
        elif kind == GAP:
            r.gaps.append((p[0], struct.unpack("<Q", p[8:])[0], len(r.out)))
        else:
            raise AssertionError(f"unknown frame {kind}")

    def step(self, timeout):
        k = self.link
        rd, wr, _ = select.select([k.s], [k.s] if k.outq else [], [], timeout)
        try:
            if wr:
                n = k.s.send(k.outq[:1 << 20])
                del k.outq[:n]
            if rd:
                data = k.s.recv(1 << 20)
                if not data:
                    k.open = False
                k.buf += data
        except (BrokenPipeError, ConnectionResetError):
            k.open = False
        at = 0
        while len(k.buf) - at >= 16:
            n, ident, kind, _, epoch = struct.unpack_from("<IIHHI", k.buf, at)
            assert n <= FRAME_MAX and epoch == k.epoch, (n, kind, epoch)
            if len(k.buf) - at - 16 < n:
                break
            self.frame(ident, kind, bytes(k.buf[at + 16:at + 16 + n]))
            at += 16 + n
        del k.buf[:at]

    def until(self, cond, timeout=10, what="the condition"):
        end = time.monotonic() + timeout
        while not cond():
            left = end - time.monotonic()
            assert left > 0, f"{what} did not come in {timeout} s"
            assert self.link.open, f"the link closed before {what}"
            self.step(min(left, 0.5))

    def spend(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.step(left)

    def run(self, ident, argv, timeout=15, **kw):
        r = self.exec(ident, argv, **kw)
        self.until(lambda: r.over, timeout, f"the end of {argv!r:.80}")
        return r

    def kill(self, ident, grace=0, timeout=5):
        r = self.runs[ident]
        r.killed = None
        self.send(KILL, ident, struct.pack("<I", grace))
        self.until(lambda: r.killed is not None, timeout, "the answer to kill")
        return r.killed

    def ask(self, ident):
        r = self.runs.setdefault(ident, Run(b"", True, 0))
        r.state = None
        self.send(QUERY, ident)
        self.until(lambda: r.state, 5, "the answer to query")
        return r.state

    def get_stats(self, ident=7777):
        self.stats.pop(ident, None)
        self.send(GET_STATS, ident)
        self.until(lambda: ident in self.stats, 5, "stats")
        return self.stats[ident]

    def guest_pid(self):
        return self.link.ids[0]

    def tree(self, state=False):
        """Pids below the guest (host's view), without zombies."""
        return below(self.guest_pid())

    def sleeping(self, arg):
        """How many `sleep ARG` live below the guest."""
        return sum(cmdline(p) == [b"sleep", arg.encode()] for p in self.tree())

    def close(self):
        if self.p and self.p.poll() is None:
            left = self.tree() if self.link else []
            self.p.send_signal(signal.SIGTERM)
            try:
                self.p.wait(3)
            except subprocess.TimeoutExpired:
                for pid in left:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.p.kill()
                self.p.wait()
        if self.link:
            self.link.s.close()
        self.listener.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class MemoryGroup:
    """A memory cgroup of our own below the one we are in; None as path when none can be made."""

    def __init__(self, limit):
        self.path = None
        with open("/proc/self/cgroup", encoding="ascii") as f:
            own = {c: p for _, c, p in (line.strip().split(":", 2) for line in f)}
        tries = [("/sys/fs/cgroup/memory" + own.get("memory", "/"), "memory.limit_in_bytes"),
                 ("/sys/fs/cgroup" + own.get("", "/"), "memory.max")]
        for parent, knob in tries:
            path = f"{parent.rstrip('/')}/bgtest{os.getpid()}"
            try:
                os.mkdir(path)
                self.path = path
                with open(f"{path}/{knob}", "w", encoding="ascii") as f:
                    f.write(str(limit))
                swap = path + ("/memory.memsw.limit_in_bytes" if "limit" in knob else "/memory.swap.max")
                if os.path.exists(swap):
                    with open(swap, "w", encoding="ascii") as f:
                        f.write(str(limit) if "limit" in knob else "0")
                return
            except OSError:
                self.close()

    def wrap(self):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def close(self):
        end = time.monotonic() + 3
        while self.path and time.monotonic() < end:
            try:
                os.rmdir(self.path)
                self.path = None
            except OSError:
                time.sleep(0.05)
        self.path = None


def bwrap_argv(link_dir, how, token):
    user = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    return ["bwrap", "--unshare-pid", "--unshare-ipc", *(user if how == "pid1" else []), "--as-pid-1",
            "--clearenv", *(["--setenv", "BOXGATE_TOKEN", token] if token else []),
            "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
            "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
            "--ro-bind", GUEST, "/.boxgate/guest", "--ro-bind", link_dir, "/.boxgate/link",
            "--die-with-parent", "/.boxgate/guest"]


def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            rest = f.read().rpartition(b")")[2].split()
        return rest[0].decode(), int(rest[1])
    except OSError:
        return None


def below(root):
    parent = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (st := stat_of(name)):
            parent[int(name)] = st
    out = []
    for pid, (state, _) in parent.items():
        up = pid
        while up in parent and up != root:
            up = parent[up][1]
        if up == root and pid != root and state not in "ZX":
            out.append(pid)
    return out


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")[:-1]
    except OSError:
        return []


# ---- running tests ----

BOTH = ("plain", "pid1")
TESTS = []


class Skip(Exception):
    """This machine lacks what the test needs."""


def test(*hows):
    def add(fn):
        for how in hows or ("plain",):
            TESTS.append((f"{fn.__name__}[{how}]", fn, how))
        return fn
    return add


def usable():
    r = subprocess.run([*bwrap_argv("/tmp", "pid1", None)[:-2], "true"], capture_output=True)
    return r.returncode == 0, r.stderr.decode(errors="replace").strip()[:100]


def main():
    only = sys.argv[1:]
    boxed, why = usable()
    bad = 0
    for name, fn, how in TESTS:
        if only and not any(o in name for o in only):
            continue
        if how in ("pid1", "root1") and not boxed:
            print(f"skip {name}: bubblewrap can't make a sandbox here ({why})")
            continue
        if how in ("root1", "user") and os.getuid() != 0:
            print(f"skip {name}: needs root")
            continue
        begin = time.monotonic()
        try:
            fn(how)
            print(f"ok {name} ({(time.monotonic() - begin) * 1000:.0f} ms)", flush=True)
        except Skip as why_not:
            print(f"skip {name}: {why_not}")
        except Exception:  # noqa: BLE001 - a test fails by any error
            bad += 1
            print(f"not ok {name}")
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
    sys.exit(bad > 0)
