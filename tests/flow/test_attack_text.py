#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Hostile bytes in every field that an agent fills, looked at on a terminal with every
# headless command: nothing of them arrives there as anything but plain text.
import os
import pty
import re

import lib
from lib import Home, Rpc, eq, test

EVIL = "\x1b]0;pwn\x07\x1b[2J\u202e\u2066\u200b\x9b31m\r\x08\u2028\U000e0041\u3164"
H = Home().start()


def on_terminal(*args):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(lib.BIN, [lib.BIN, *args], dict(H.env, TERM="xterm"))
    out = b""
    try:
        while d := os.read(fd, 65536):
            out += d
    except OSError:
        pass
    os.close(fd)
    os.waitpid(pid, 0)
    return out.decode("utf-8", "replace")


def rogue(text):
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")  # our own colours
    return sorted({hex(ord(c)) for c in text if (c < " " and c != "\n") or "\x7f" <= c < "\xa0" or (c in EVIL and c > "\x9f")})


@test
def what_an_agent_says_reaches_no_terminal_raw():
    agent = Rpc(os.path.join(H.runtime, "agent.sock"), hello=False)
    agent.call("hello", proto=1, client={"name": EVIL[:20], "version": EVIL[:8]}, want="agent")
    agent.call("request.submit", kind="run_code", callId=EVIL, purpose=EVIL, session="s", waitMs=0,
               body={"code": EVIL + "\nprint(1)", "language": "python"})
    agent.call("request.submit", kind="exec", purpose=EVIL, session="s", waitMs=0,
               body={"command": EVIL, "args": [EVIL], "cwd": "a" + EVIL, "env": {"A": EVIL}, "input": EVIL})
    for args in (("pending",), ("pending", "--json"), ("show", "1"), ("show", "2"), ("show", "2", "--json"),
                 ("sessions",), ("audit", "tail"), ("audit", "export", "--jsonl")):
        text = on_terminal(*args)
        assert len(text) > 50, (args, text)
        eq(rogue(text), [], args)
    with open(os.path.join(H.path, "state/server.log"), errors="replace") as f:
        eq(rogue(f.read()), [], "the log")
    agent.close()


@test
def errors_repeat_no_raw_words():
    for args in ((EVIL,), ("show", EVIL), ("approve", EVIL, "--sha", "0" * 16), ("deny", "1", "--sha", EVIL),
                 ("run", "--lang", EVIL, "/dev/null"), ("run", "--lang", "python", "/tmp/" + EVIL),
                 ("run", "--session", EVIL), ("exec", EVIL, "--", "x")):
        text = on_terminal(*args)
        assert text, args
        eq(rogue(text), [], args)


@test
def what_a_program_prints_is_rendered():
    H.policy("version: 1\nrules: [{id: all, decision: allow, kinds: [run_code], sandbox: {provider: local, "
             "imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: true}}]\n")
    code = f"import os\nfor fd in (1, 2): os.write(fd, b'seen' + bytes.fromhex('{EVIL.encode().hex()}'))\n"
    text = on_terminal("run", H.file("p.py", code))
    eq(text.count("seen"), 2, text)
    eq(rogue(text), [])


try:
    lib.main()
finally:
    H.close()
