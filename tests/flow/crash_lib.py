# SPDX-License-Identifier: MIT
"""Kills a server again and again and checks what its store says about what ran.

A round: start a server that dies at one named crash point (BG_FAULT_AT, where the binary has
them) or by SIGKILL at some moment; ask, decide, cancel, leave; it dies; the store is copied
before anything can change it. The next server owes what the dead one left: every request
ended as lost or interrupted, every trace removed. What ran is known without the server: each
program appends its own token to a file of the host. A second instance beside it must never
be touched. A round is made by its number and the seed alone, so that it can be repeated.
"""
import collections
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

SRC = os.environ.get("BOXGATE_SRC") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("BOXGATE_BUILD") or os.path.join(SRC, "build/release")
BIN = os.environ.get("BOXGATE_BIN") or os.path.join(BUILD, "boxgate")
FAULTY = os.path.join(BUILD, "boxgate-fault")
SLOW = 4 if "san" in os.path.basename(BUILD) else 1
GONE_S = 20 * SLOW  # what a dead server left must be gone by then, counted from the next one's start
HOURS_4 = 14400000
HOME_ROUNDS = 250   # then a new store: the whole chain is read after every crash


def stalls(points):
    """Points before a commit, where a server that does not wait for it would run on."""
    return [p for p in points if p in ("audit.begin", "audit.commit")]


def points():
    """Every name that the sources know."""
    found = set()
    for path in glob.glob(os.path.join(SRC, "core/*/*.c")):
        with open(path) as f:
            found |= set(re.findall(r'bg_fault_point\("([a-z._]+)"\)', f.read()))
    return sorted(found)


class Dead(Exception):
    """The server is gone: what a round is for."""


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.cls = (error.get("data") or {}).get("class")


class Connector:
    """A process of nobody here that makes the agents' connections: who asks must be no relative
    of who decides."""

    def __init__(self):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
            self.sock.close()
            self.serve(theirs)
        os.waitpid(pid, 0)
        theirs.close()

    @staticmethod
    def serve(sock):
        try:
            while path := sock.recv(4096):
                with socket.socket(socket.AF_UNIX) as s:
                    try:
                        s.connect(path)
                        socket.send_fds(sock, [b"+"], [s.fileno()])
                    except OSError:
                        sock.send(b"-")
        finally:
            os._exit(0)

    def connect(self, path):
        self.sock.send(path.encode())
        answer, fds, _, _ = socket.recv_fds(self.sock, 1, 1)
        if answer != b"+":
            raise Dead
        return socket.socket(fileno=fds[0])


class Wire:
    """One connection, JSON-RPC by hand; every way it can break off is Dead."""

    def __init__(self, sock, want, **more):
        self.sock, self.buf, self.next = sock, b"", 0
        self.sock.settimeout(30 * SLOW)
        self.hello = self.call("hello", proto=1, client={"name": "crash", "version": "1"}, want=want, **more)

    def send(self, method, **params):
        self.next += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        try:
            self.sock.sendall(line.encode() + b"\n")
        except (BrokenPipeError, ConnectionError):
            raise Dead from None
        return self.next

    def answer(self, want):
        while True:
            while b"\n" not in self.buf:
                try:
                    got = self.sock.recv(1 << 16)
                except ConnectionError:
                    got = b""
                if not got:
                    raise Dead
                self.buf += got
            line, self.buf = self.buf.split(b"\n", 1)
            m = json.loads(line)
            if m.get("id") == want:
                if "error" in m:
                    raise Refused(m["error"])
                return m["result"]

    def call(self, method, **params):
        return self.answer(self.send(method, **params))

    def close(self):
        self.sock.close()


class Store:
    """A copy of a dead server's store, read and verified here, not by the code under test."""

    def __init__(self, state):
        with tempfile.TemporaryDirectory(prefix="bgc.") as tmp:
            for name in ("audit.db", "audit.db-wal"):
                if os.path.exists(os.path.join(state, name)):
                    shutil.copy(os.path.join(state, name), tmp)
            self.rows, self.sandboxes = [], set()
            db = os.path.join(tmp, "audit.db")
            if os.path.exists(db):
                self.read(db)
        self.events = collections.defaultdict(set)
        self.lines = collections.defaultdict(list)
        for event, id_, line in self.rows:
            self.events[id_].add(event)
            self.lines[id_].append(line)

    def read(self, path):
        db = sqlite3.connect(path)
        if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'audit'").fetchone()[0]:
            return
        before, n = None, 0
        for seq, event, id_, line, prev, digest in db.execute(
                "SELECT seq, event, id, line, prev, hash FROM audit ORDER BY seq"):
            n += 1
            assert seq == n, f"row {n} has the number {seq}"
            assert before is None or prev == before, f"the chain breaks at row {seq}"
            before = hashlib.sha256(prev + struct.pack(">Q", len(line)) + line).digest()
            assert digest == before, f"row {seq} was changed"
            self.rows.append((event, id_, json.loads(line)))
        self.sandboxes = {r[0] for r in db.execute("SELECT ref FROM sandbox")}
        db.close()

    def decision(self, id_):
        found = [x["decision"] for x in self.lines[id_] if x["event"] == "request.decided"]
        assert len(found) <= 1, f"request {id_} was decided {len(found)} times"
        return found[0] if found else None

    def final(self, id_):
        return [x.get("state") for x in self.lines[id_] if x["event"] == "request.finished"]


def cmdlines():
    """Every process's command line, as one string a process."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        if line:
            yield int(pid), line.replace(b"\0", b" ").decode("utf-8", "replace")


class Instance:
    """A BOXGATE_HOME and its server."""

    def __init__(self, binary, connector, parent):
        self.binary, self.connector = binary, connector
        self.tmp = tempfile.mkdtemp(prefix="i.", dir=parent)
        self.home = os.path.join(self.tmp, "home")
        self.evidence = os.path.join(self.tmp, "ev")
        self.state, self.run = os.path.join(self.home, "state"), os.path.join(self.home, "run")
        self.proc = None
        for path in (self.home, os.path.join(self.home, "config")):
            os.mkdir(path, 0o700)
        os.mkdir(self.evidence)
        for path in (parent, self.tmp):
            os.chmod(path, 0o711)
        os.chmod(self.evidence, 0o777)
        with open(os.path.join(self.evidence, "ran"), "w"):
            os.chmod(os.path.join(self.evidence, "ran"), 0o666)
        with open(os.path.join(self.home, "config/config.yaml"), "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write("version: 1\nprovider: local\nprocesses: {lingerMs: 60000}\nprofiles:\n  default:\n"
                    f"    limits: {{maxTimeoutMs: {HOURS_4}}}\n"
                    f"    mounts: [{{host: {self.evidence}, container: /ev, readOnly: false}}]\n")

    @property
    def id(self):
        try:
            with open(os.path.join(self.state, "instance")) as f:
                return f.read()[:16]
        except FileNotFoundError:
            return "no instance yet"

    def log(self):
        with open(os.path.join(self.tmp, "log"), errors="replace") as f:
            return f.read()[-4000:]

    def start(self, fault=None):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.tmp, "LANG": "C.UTF-8",
               "BOXGATE_HOME": self.home, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
        if "BOXGATE_GUEST" in os.environ:
            env["BOXGATE_GUEST"] = os.environ["BOXGATE_GUEST"]
        if fault:
            env["BG_FAULT_AT"] = ":".join(map(str, fault))
        with open(os.path.join(self.tmp, "log"), "w") as log:
            self.proc = subprocess.Popen([self.binary, "server", "--foreground"], env=env, stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=log)

    def ended(self):
        """True if it was killed; any other end is a defect."""
        code = self.proc.poll()
        assert code in (None, -signal.SIGKILL), f"the server ended with {code}:\n{self.log()}"
        return code is not None

    def operator(self):
        """Waits for the socket; Dead when the server dies before."""
        end = time.monotonic() + 20 * SLOW
        while True:
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(os.path.join(self.run, "operator.sock"))
                return Wire(s, "operator")
            except OSError:
                s.close()
            if self.ended():
                raise Dead
            assert time.monotonic() < end, f"no server came up:\n{self.log()}"
            time.sleep(0.002)

    def agent(self, **hello):
        return Wire(self.connector.connect(os.path.join(self.run, "agent.sock")), "agent", **hello)

    def tokens(self):
        with open(os.path.join(self.evidence, "ran")) as f:
            return f.read().split()

    def traces(self, tokens=()):
        """What exists of its sandboxes outside of its own folders, and its records."""
        id_ = self.id
        found = set(glob.glob(f"/run/boxgate-link-{id_}-*")) | set(glob.glob(self.run + "/g/*"))
        found |= set(glob.glob(self.run + "/local/*"))
        for base in cgroup_bases():
            found |= set(glob.glob(f"{base}/boxgate-{id_}-*"))
        for pid, line in cmdlines():
            if f"boxgate-link-{id_}" in line or any(t in line for t in tokens):
                found.add(f"process {pid} {line[:60]}")
        return found

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(20 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()


_bases = []


def cgroup_bases():
    """Folders in which cgroups of sandboxes can lie, found once: they are our own or its parents."""
    if not _bases:
        with open("/proc/self/cgroup") as f:
            own = {line.rstrip("\n").split(":", 2)[2] for line in f}
        for mount in glob.glob("/sys/fs/cgroup/*/") + ["/sys/fs/cgroup/"]:
            for path in own:
                while True:
                    if os.path.isdir(mount + path):
                        _bases.append((mount + path).rstrip("/"))
                    if path in ("/", ""):
                        break
                    path = os.path.dirname(path)
    return set(_bases)


class Owed:
    """What a dead server left, and what the next one has to do about it."""

    def __init__(self, store, traces, since):
        self.store, self.traces, self.since = store, traces, since


class Harness:
    def __init__(self, binary, seed, tmp):
        self.binary, self.seed, self.tmp = binary, seed, tmp
        self.connector = Connector()
        self.beside = self.neighbour = None
        self.inst = None
        self.round = 0
        self.count = collections.Counter()
        self.span = 0.3  # seconds a whole round takes, learned
        self.mark = f"31.{os.getpid():07d}" # of all tokens of this test

    # ---- the instance beside ----

    def open_beside(self):
        """A healthy server with a program that runs all the time."""
        b = self.beside = Instance(BIN, self.connector, self.tmp)
        b.start()
        op = b.operator()
        agent = b.agent()
        self.neighbour = (op, self.ask(agent, "14300.5", "long"), agent)
        self.decide(op, self.neighbour[1], "approve")
        end = time.monotonic() + 20 * SLOW
        while "14300.5" not in b.tokens():
            assert time.monotonic() < end, b.log()
            time.sleep(0.01)
        self.untouched = b.traces(["14300.5"])
        assert len(self.untouched) >= 3, self.untouched

    def check_beside(self):
        missing = self.untouched - self.beside.traces(["14300.5"])
        assert not missing, f"of the other instance these are gone: {missing}"
        row = self.neighbour[0].call("approval.get", id=self.neighbour[1]["approvalId"])
        assert row["state"] == "running", f"the other instance's program is {row['state']}"

    # ---- what agents and operators do ----

    @staticmethod
    def ask(agent, token, how, **more):
        tail = {"long": 'exec sleep "$0"', "short": "echo done"}[how]
        body = {"command": "sh", "args": ["-c", f'echo "$0" >>/ev/ran; {tail}', token], "timeoutMs": HOURS_4}
        return agent.call("request.submit", kind="exec", callId=f"call-{token}", body=body, **more)

    @staticmethod
    def decide(op, asked, what):
        row = op.call("approval.get", id=asked["approvalId"])
        return op.call("approval.decide", id=row["id"], rev=row["rev"], sha256=row["sha256"], decision=what,
                       ackHazards=row["hazards"])

    def token(self, n):
        return f"{self.mark}{self.round:06d}{n:02d}"

    def work(self, rnd):
        """All that can be under way when a server dies. Ends when it has died or nothing is left to do."""
        inst = self.inst
        op = inst.operator()
        first, second = inst.agent(runId=f"run{self.round}"), inst.agent()
        long = self.ask(first, self.token(1), "long")
        pending = self.ask(first, self.token(2), "short")
        steps = [lambda: self.decide(op, long, "approve"),
                 lambda: self.decide(op, self.ask(first, self.token(3), "short"), "deny"),
                 lambda: self.cancel(first),
                 lambda: self.finish(op, first),
                 lambda: self.detach(op, rnd.random() < 0.6),
                 lambda: self.decide(op, self.ask(second, self.token(6), "short"), "approve"),
                 lambda: op.call("session.create", id=f"s{self.round}")]
        rnd.shuffle(steps)
        for step in steps:
            step()
        self.again(op, first)
        if rnd.random() < 0.3:
            op.call("session.close", all=True)
        assert pending["state"] == "pending", pending

    def cancel(self, agent):
        a = self.ask(agent, self.token(4), "short")
        agent.call("request.cancel", approvalId=a["approvalId"], sha256=a["sha256"])

    def finish(self, op, agent):
        a = self.ask(agent, self.token(5), "short")
        self.decide(op, a, "approve")
        res = agent.call("request.wait", approvalId=a["approvalId"], sha256=a["sha256"], waitMs=20000)
        assert res["state"] == "done" and res["result"]["stdout"] == "done\n", res

    def again(self, op, agent):
        """In a sandbox that is there: nothing stands between decision and run but the record."""
        end = time.monotonic() + 20 * SLOW
        while self.token(1) not in self.inst.tokens():
            if self.inst.ended():
                raise Dead
            assert time.monotonic() < end, "the long program does not run"
            time.sleep(0.002)
        self.decide(op, self.ask(agent, self.token(8), "short"), "approve")

    def detach(self, op, claim):
        """Decided while nobody waits; claimed by its owner or not."""
        agent = self.inst.agent()
        a = self.ask(agent, self.token(7), "short")
        agent.close()
        end = time.monotonic() + 10 * SLOW
        while op.call("approval.get", id=a["approvalId"])["attached"]:
            assert time.monotonic() < end, "still attached after the connection was closed"
        self.decide(op, a, "approve")
        assert op.call("approval.get", id=a["approvalId"])["state"] == "approved"
        if claim:
            agent = self.inst.agent()
            res = agent.call("request.wait", approvalId=a["approvalId"], sha256=a["sha256"], waitMs=20000)
            assert res["state"] == "done", res

    # ---- what must hold ----

    def check_dead(self, store):
        """No run without a decision and a claim on the disk; nothing runs twice."""
        by_token = {}
        for id_, lines in store.lines.items():
            for x in lines:
                if x["event"] == "request.received" and x.get("callId"):
                    call = x["callId"].rpartition("/")[2]  # a run's call ids carry its run id
                    assert call not in by_token, f"two requests {call}"
                    by_token[call] = id_
            if "request.claimed" in store.events[id_]:
                assert store.decision(id_) == "approve", f"request {id_} was claimed without an approval"
            if "request.started" in store.events[id_]:
                assert "request.claimed" in store.events[id_], f"request {id_} started without a claim"
            assert len(store.final(id_)) <= 1, f"request {id_} ended more than once"
        ran = self.inst.tokens()
        assert len(ran) == len(set(ran)), f"ran twice: {[t for t, n in collections.Counter(ran).items() if n > 1]}"
        for token in ran:
            id_ = by_token.get(f"call-{token}")
            assert id_, f"{token} ran and the store knows no such request"
            assert "request.claimed" in store.events[id_], f"{token} (request {id_}) ran without a claim on the disk"
        self.count["programs that ran"] = max(self.count["programs that ran"], len(ran))

    def settled(self, owed):
        """True when the present server has done all of it; a wrong deed is told at once."""
        store = Store(self.inst.state)
        for id_ in list(owed.store.events):
            if not id_ or owed.store.final(id_):
                continue
            claimed = "request.claimed" in owed.store.events[id_]
            want = "interrupted" if claimed else "lost"
            got = store.final(id_)
            if not got:
                return False
            assert got == [want], f"request {id_} ended as {got}, not as {want}"
        left = owed.traces & self.inst.traces()
        return not left and not (owed.store.sandboxes & store.sandboxes)

    def describe(self, owed):
        store = Store(self.inst.state)
        open_ = [i for i in owed.store.events if i and not owed.store.final(i) and not store.final(i)]
        return (f"requests still open: {open_}; still there: {sorted(owed.traces & self.inst.traces())}; "
                f"records: {sorted(owed.store.sandboxes & store.sandboxes)}\n{self.inst.log()}")

    def count_ends(self, owed):
        for id_ in owed.store.events:
            if id_ and not owed.store.final(id_):
                self.count["interrupted" if "request.claimed" in owed.store.events[id_] else "lost"] += 1

    def settle(self, owed, secs):
        """Waits until the present server has settled it; False when it died or time is up."""
        end = time.monotonic() + secs
        while True:
            if self.settled(owed):
                self.count_ends(owed)
                return True
            if self.inst.ended() or time.monotonic() > end:
                return False
            time.sleep(0.005)

    # ---- rounds ----

    def bury(self, owed):
        """The server is dead: look at what it left, before anybody changes it."""
        self.inst.proc.wait()
        store = Store(self.inst.state)
        self.check_dead(store)
        self.check_beside()
        mine = Owed(store, self.inst.traces([f"{self.mark}{self.round:06d}"]), time.monotonic())
        if owed:
            mine.since = owed.since
            for id_ in owed.store.events: # what the last one owed is owed still
                for x in owed.store.lines[id_]:
                    if id_ and x["event"] == "request.finished":
                        assert store.final(id_) == owed.store.final(id_), f"request {id_} ended again"
        self.count["rounds"] += 1
        return mine

    def once(self, fault, when, owed):
        """One server, from its start to its end. fault: (name, hit[, ms of waiting]) or None; when: seconds until SIGKILL or
        None. Returns (what is owed now, True if the crash point was reached)."""
        self.round += 1
        rnd = random.Random(f"{self.seed}.{self.round}")
        began = time.monotonic()
        self.inst.start(fault)
        killer = threading.Timer(when, self.inst.proc.kill) if when is not None else None
        if killer:
            killer.start()
        try:
            op = self.inst.operator()
            if owed and rnd.random() < 0.5:
                owed = None if self.settle(owed, GONE_S) else owed
                assert not owed or self.inst.ended(), self.describe(owed)
            self.work(rnd)
            op.close()
            self.span = 0.8 * self.span + 0.2 * (time.monotonic() - began)
            if owed:
                owed = None if self.settle(owed, GONE_S) else owed
                assert not owed or self.inst.ended(), self.describe(owed)
            if not self.inst.ended():
                time.sleep(rnd.random() * 0.03)
        except Dead:
            self.inst.proc.wait(10 * SLOW) # the connection goes just before the process does
        fired = self.inst.ended()
        if killer:
            killer.cancel()
        self.inst.kill()
        return self.bury(owed), fired

    def clean_up(self, owed):
        """A healthy server settles all; then nothing of this instance is left anywhere."""
        self.inst.start()
        self.inst.operator().close()
        assert self.settle(owed, GONE_S), self.describe(owed)
        self.inst.stop()
        store = Store(self.inst.state)
        self.check_dead(store)
        left = self.inst.traces([self.mark])
        assert not left, f"left at the end: {sorted(left)}"
        open_ = [i for i in store.events if i and not store.final(i)]
        assert not open_ and not store.sandboxes, f"open at the end: {open_}, {store.sandboxes}"
        code = subprocess.run([BIN, "audit", "verify"], env=dict(os.environ, BOXGATE_HOME=self.inst.home),
                              capture_output=True, check=False)
        assert code.returncode == 0, code
        self.check_beside()

    def run(self, plan, until=None):
        """plan: an iterator of (fault, when), told by send() whether the point was reached."""
        self.open_beside()
        owed, fired, rounds = None, None, 0
        self.inst = Instance(self.binary, self.connector, self.tmp)
        try:
            fault, when = next(plan)
            while not until or time.monotonic() < until:
                try:
                    owed, fired = self.once(fault, when, owed)
                except BaseException:
                    print(f"in round {self.round} (seed {self.seed}): fault {fault}, SIGKILL after {when}", flush=True)
                    raise
                if fired and fault:
                    self.count[fault[0]] += 1
                rounds += 1
                if rounds % HOME_ROUNDS == 0:
                    print(f"# {rounds} rounds, {dict(self.count)}", flush=True)
                    self.clean_up(owed)
                    shutil.rmtree(self.inst.tmp)
                    owed, self.inst = None, Instance(self.binary, self.connector, self.tmp)
                fault, when = plan.send(fired)
        except StopIteration:
            pass
        finally:
            self.inst.proc and self.inst.kill()
        if owed:
            self.clean_up(owed)

    def close(self):
        for inst in (self.inst, self.beside):
            if inst:
                inst.stop()
        self.connector.sock.close()
