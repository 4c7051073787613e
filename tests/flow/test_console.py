#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The console on a pty of its own with a real server: every way out, idle, linear mode."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from lib import *

HANGUP_MS = 100
FIRST_FRAME_MS = 50


class Console:
    def __init__(self, home, *args, term="xterm-256color", rows=24, cols=80, env=None):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        e = dict(home.env, TERM=term, **(env or {}))
        if term is None:
            del e["TERM"]
        self.begun = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(self.slave, fd)
            os.closerange(3, 256)
            os.execve(BIN, [BIN, *args], e)
        self.status = None

    def pump(self, secs=0.0):
        ready, _, _ = select.select([self.master], [], [], secs)
        if ready:
            try:
                self.out += os.read(self.master, 65536)
            except OSError:
                pass
        return bool(ready)

    @property
    def text(self):
        """Words as they were written: colours left out, cursor movement as a blank."""
        plain = re.sub(rb"\x1b\[[0-9;]*m|\x1b\(B", b"", self.out)
        return re.sub(rb"\x1b(\[[0-9;?<$]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])", b" ",
                      plain).decode("utf-8", "replace")

    def until(self, words, secs=10):
        def there():
            while self.pump():
                pass
            return words in self.text
        try:
            wait_for(repr(words), there, secs)
        except AssertionError as e:
            raise AssertionError(f"{e}; shown: {self.text[-1500:]!r}") from None
        return self

    def type(self, keys, gap=0.06):
        for k in keys:
            os.write(self.master, k.encode())
            time.sleep(gap)
        return self

    def clear(self):
        while self.pump():
            pass
        self.out = b""

    def ended(self, secs=5):
        """The exit status as a shell says it, and how long it took."""
        begun = time.monotonic()
        end = begun + secs * SLOW
        while time.monotonic() < end:
            pid, st = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                took = (time.monotonic() - begun) * 1000
                while self.pump():
                    pass
                self.status = 128 + os.WTERMSIG(st) if os.WIFSIGNALED(st) else os.WEXITSTATUS(st)
                return self.status, took
            self.pump(0.002)
        raise AssertionError(f"the console did not end; shown: {self.text[-800:]!r}")

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.master)
        os.close(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def waiting(home):
    """A request that waits, and its agent."""
    agent = home.run("print(6 * 7)\n")
    return agent, home.pending()


def still_pending(home, row):
    now = home.pending()
    eq((now["id"], now["state"]), (row["id"], "pending"))


def restored(c):
    eq(termios.tcgetattr(c.slave), c.before, "terminal modes")
    for seq in (b"\x1b[?1049l", b"\x1b[?2004l", b"\x1b[?1004l"):
        has(c.out, seq)
    assert b"\x1b[?25h" in c.out or b"\x1b[?12l\x1b[?25h" in c.out, "cursor visible"


@test
def approves_a_real_request():
    with Home() as h:
        h.start()
        with Console(h) as c:
            c.until("Nothing waits")
            agent, row = waiting(h)
            c.until("print(6 * 7)")
            c.type("\r").until("all seen")
            time.sleep(0.8)
            c.type("a").until("approved")
            r = agent.wait()
            eq((r.rc, r.text), (0, "42\n"), str(r))
            c.type("q")
            eq(c.ended()[0], 0)
            restored(c)
        eq([x["decision"] for x in h.audit("request.decided", id=row["id"])], ["approve"])


@test
def keys_at_once_approve_nothing():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        with Console(h) as c:
            os.write(c.master, b"\raaaa")  # typed ahead
            c.until("print(6 * 7)")
            os.write(c.master, b"\r")
            c.until("Approve #")
            os.write(c.master, b"aaaa\r\ra\n")
            time.sleep(0.8)
            os.write(c.master, b"\x1b[200~a\x1b[201~")
            c.until("a paste is no answer")
            os.write(c.master, b"aa")
            c.until("discarded")
            still_pending(h, row)
        assert not agent.ended()


@test
def c032_every_signal_restores_the_terminal():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV):
            with Console(h) as c:
                c.until("print(6 * 7)")
                os.kill(c.pid, sig)
                code, took = c.ended()
                if SLOW == 1 or sig not in (signal.SIGABRT, signal.SIGSEGV):
                    eq(code, 128 + sig, f"{sig.name}")
                    restored(c)
                if sig == signal.SIGHUP:
                    assert took <= HANGUP_MS * SLOW, f"{took:.0f} ms"
            still_pending(h, row)
        assert not agent.ended()


@test
def a_hang_up_ends_it_and_decides_nothing():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        c = Console(h).until("print(6 * 7)")
        c.type("\r").until("Approve #")
        os.close(c.slave)
        begun = time.monotonic()
        os.close(c.master)
        wait_for("the end", lambda: os.waitpid(c.pid, os.WNOHANG)[0], 5)
        took = (time.monotonic() - begun) * 1000
        assert took <= HANGUP_MS * SLOW, f"{took:.0f} ms"
        still_pending(h, row)
        assert not agent.ended()


@test
def c116_idle_is_silent():
    with Home() as h:
        h.start()
        with Console(h) as c:
            c.until("Nothing waits")
            time.sleep(0.3)
            c.clear()
            before = cpu(c.pid)
            time.sleep(3)
            c.pump()
            eq(c.out, b"", "bytes while idle")
            assert cpu(c.pid) - before <= 1, "CPU while idle"


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@test
def the_first_frame_is_quick():
    with Home() as h:
        h.start()
        best = 1e9
        for _ in range(5):
            with Console(h) as c:
                c.until("Sessions")
                best = min(best, (time.monotonic() - c.begun) * 1000)
        print(f"# first frame {best:.0f} ms")
        assert best <= FIRST_FRAME_MS * SLOW * 2, f"{best:.0f} ms"  # twice: the machine has other work


@test
def a_lost_server_is_said_and_found_again():
    with Home() as h:
        h.start()
        with Console(h) as c:
            c.until("Nothing waits")
            h.crash()
            c.until("NO CONNECTION")
            h.start()
            c.until("connected again")
            agent, _ = waiting(h)
            c.until("print(6 * 7)")
            c.type("\r").until("all seen")
            time.sleep(0.8)
            c.type("x").until("denied")
            eq(agent.wait().rc, 125)


@test
def without_a_config_it_says_what_to_do():
    with Home(config="") as h:
        r = h.cmd()
        eq(r.rc, 2, str(r))
        has(r.why, "boxgate init --provider")


@test
def c115_every_locale_and_terminal():
    with Home() as h:
        h.start()
        agent = h.run("print('\u6a21\u578b-\U0001f9ea e\u0301 \U0001f469\u200d\U0001f467 \ufdfa')\n")
        h.pending()
        with Console(h, env={"LANG": "C"}) as c:
            c.until("\\u{6a21}")
            assert c.out.isascii(), c.out
        with Console(h, term="linux") as c:
            c.until("\u6a21\u578b-\U0001f9ea")
        with Console(h, env={"NO_COLOR": "1"}) as c:
            c.until("HIGH")  # told by letters
            assert not re.findall(rb"\x1b\[(?:[0-9]+;)*(?:[34][0-8]|9[0-7]|10[0-7])[;m]", c.out), c.out
        for term in ("dumb", None):
            with Console(h, term=term) as c:
                c.until("pending 1 of 1: #")
                assert b"\x1b" not in c.out, c.out
        agent.kill(signal.SIGTERM)
        agent.wait()


@test
def linear_reads_and_decides():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        with Console(h, term="dumb") as c:
            c.until("pending 1 of 1: #")
            assert b"\x1b[" not in c.out, "no sequences"
            c.type(f"approve {row['id']}\r", 0).until("refused: show it first")
            c.type(f"show {row['id']}\r", 0).until("everything was printed")
            has(c.text, "line 1: print(6 * 7)")
            has(c.text, "sha256: " + row["sha256"])
            c.type(f"approve {row['id']}\r", 0).until("too soon")
            time.sleep(0.8)
            c.type(f"approve {row['id']}\r", 0).until("decided: #")
            eq(agent.wait().text, "42\n")
            c.type("quit\r", 0)
            eq(c.ended()[0], 0)


@test
def linear_wants_every_line_and_the_digits():
    with Home() as h:
        h.start()
        agent = h.run("".join(f"print({i})\n" for i in range(50)) + "# \u202e\n")
        row = h.pending()
        with Console(h, "--linear") as c:
            c.until("HIGH")
            c.type(f"show {row['id']}\r", 0).until("more: an empty line")
            time.sleep(0.8)
            c.type(f"approve {row['id']} {row['sha256'][:4]}\r", 0).until("not every line was printed")
            for _ in range(5):
                c.type("\r", 0)
                time.sleep(0.2)
            c.until("everything was printed")
            has(c.text, "\\u{202e}")
            time.sleep(0.8)
            c.type(f"approve {row['id']}\r", 0).until("HIGH needs the first 4 digits")
            c.type(f'deny {row["id"]} "no tricks, please"\r', 0).until("decided: #")
            r = agent.wait()
            eq(r.rc, 125)
            has(r.why, "no tricks, please")
            os.write(c.master, b"\x04")  # end of input
            eq(c.ended()[0], 0)


@test
def linear_that_cannot_print_decides_nothing():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        master, slave = pty.openpty()
        with open("/dev/full", "wb") as full:
            p = subprocess.Popen([BIN, "--linear"], stdin=slave, stdout=full, stderr=subprocess.PIPE,
                                 env=dict(h.env, TERM="dumb"))
            os.write(master, f"show {row['id']}\n".encode())
            end = time.monotonic() + 2
            while p.poll() is None and time.monotonic() < end:
                os.write(master, f"approve {row['id']}\n".encode())
                time.sleep(0.7)
            os.write(master, b"quit\n")
            why = p.communicate(timeout=10)[1].decode()
        os.close(master)
        os.close(slave)
        still_pending(h, row)
        assert not agent.ended()
        eq(p.returncode, 1)
        has(why, "nothing can be printed")


@test
def linear_scripts_decide_nothing():
    with Home() as h:
        h.start()
        agent, row = waiting(h)
        r = h.cmd("--linear", stdin=f"show {row['id']}\napprove {row['id']}\n".encode())
        eq(r.rc, 0, str(r))
        still_pending(h, row)
        assert not agent.ended()


main()
