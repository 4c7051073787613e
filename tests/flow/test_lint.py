#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tools/lint must refuse what it exists to refuse: each layering rule is broken once in a
# throw-away tree, each allowed direction is used once, and so for the other steps.
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

SRC = os.environ.get("BOXGATE_SRC") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SPDX = "/* SPDX-License-Identifier: MIT */\n"
# Written out by hand, not read from tests/tools/layers: a slip there must show here.
ALLOWED = """
core/loop/a.c base/x.h            core/net/a.c loop/x.h             core/engine/a.c net/x.h
core/guest/channel.c base/x.h     core/guest/channel.c loop/x.h     core/guest/channel.c guest/protocol.h
core/guest/guest.c guest/protocol.h  core/config/a.c base/x.h       core/provider/a.c engine/x.h
core/provider/a.c guest/channel.h core/provider/a.c net/x.h         core/provider/a.c config/x.h
core/session/a.c provider/x.h     core/session/a.c base/x.h         core/session/a.c config/x.h
core/policy/a.c base/x.h          core/audit/a.c base/x.h
core/audit/a.c loop/x.h           core/approval/a.c policy/x.h      core/approval/a.c audit/x.h
core/image/a.c engine/x.h         core/rpc/a.c loop/x.h             core/api.c session/x.h
core/api.c approval/x.h           core/api.c image/x.h              core/server/a.c session/x.h
core/server/a.c approval/x.h      core/server/a.c rpc/x.h           core/server/a.c guest/channel.h
core/client/a.c rpc/x.h           core/client/a.c base/x.h          core/cli/a.c server/x.h
core/cli/a.c client/x.h           core/cli/a.c audit/x.h            core/mcp/a.c client/x.h
tests/unit/core/a.c server/x.h
"""
REFUSED = """
core/base/a.c loop/x.h            core/base/a.c config/x.h          core/loop/a.c net/x.h
core/net/a.c engine/x.h           core/engine/a.c provider/x.h      core/engine/a.c config/x.h
core/guest/guest.c base/x.h       core/guest/guest.c guest/channel.h  core/guest/protocol.h base/x.h
core/guest/channel.c net/x.h      core/guest/channel.c config/x.h   core/provider/a.c session/x.h
core/provider/a.c policy/x.h      core/session/a.c approval/x.h     core/session/a.c server/x.h
core/policy/a.c provider/x.h      core/policy/a.c loop/x.h          core/policy/a.c session/x.h
core/policy/a.c config/x.h        core/audit/a.c approval/x.h       core/audit/a.c config/x.h         core/approval/a.c session/x.h
core/approval/a.c provider/x.h    core/image/a.c session/x.h        core/rpc/a.c approval/x.h
core/rpc/a.c server/x.h           core/api.c rpc/x.h                core/api.c server/x.h
core/server/a.c client/x.h        core/server/a.c cli/x.h           core/client/a.c server/x.h
core/client/a.c session/x.h       core/client/a.c config/x.h        core/cli/a.c mcp/x.h
core/mcp/a.c server/x.h           core/mcp/a.c cli/x.h              core/config/a.c policy/x.h
"""
# includer, include as written
REFUSED_ELSEWHERE = [
    ("core/server/b.c", '"tui/x.h"'), ("core/cli/b.c", '"wizard/x.h"'), ("wizard/b.c", '"tui/x.h"'),
    ("wizard/b.c", '"core/server/x.h"'), ("tui/b.c", '"core/server/x.h"'), ("tui/b.c", '"core/cli/x.h"'),
    ("tui/view/b.c", '"core/policy/x.h"'), ("core/net/b.c", "<uv.h>"), ("core/server/c.c", "<uv.h>"),
    ("tui/c.c", "<uv.h>"), ("core/cli/c.c", "<curses.h>"), ("wizard/c.c", "<ncurses.h>"),
    ("core/base/c.c", "<ncursesw/curses.h>"), ("tests/unit/core/c.c", "<curses.h>"),
    ("core/client/c.c", "<panel.h>"), ("core/policy/c.c", "<cjson/cJSON.h>"), ("core/engine/c.c", "<curl/curl.h>"),
    ("core/server/d.c", "<sqlite3.h>"), ("core/base/d.c", '"core/base/nowhere.h"'),
    ("core/newfolder/d.c", '"core/base/x.h"'),
]
ALLOWED_ELSEWHERE = [
    ("wizard/e.c", '"core/client/x.h"'), ("wizard/e.c", '"core/image/x.h"'), ("tui/e.c", '"core/client/x.h"'),
    ("tui/e.c", '"wizard/x.h"'), ("tui/main.c", '"core/cli/x.h"'), ("tui/main.c", '"core/mcp/x.h"'),
    ("tui/kit/e.c", "<curses.h>"), ("core/loop/e.c", "<uv.h>"), ("core/base/e.c", "<cjson/cJSON.h>"),
    ("core/net/e.c", "<curl/curl.h>"), ("core/audit/e.c", "<sqlite3.h>"), ("core/base/f.c", "<stdio.h>"),
]


class Tree:
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="bg-lint-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def add(self, path, text, mode="a"):
        full = os.path.join(self.dir, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, mode) as f:
            f.write(text)
        return full

    def lint(self, *steps):
        r = subprocess.run([os.path.join(SRC, "tests/tools/lint"), "--root", self.dir, *steps], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return r.returncode, r.stdout


def pairs(table):
    words = table.split()
    return [(a, f'"core/{b}"') for a, b in zip(words[::2], words[1::2])]


def include_all(tree, cases):
    """One include a line; returns {FILE:LINE: include}."""
    where, lines = {}, {}
    for target in {i.strip('"') for _, i in cases if i.startswith('"') and "nowhere" not in i}:
        tree.add(target, "")
    for path, include in cases:
        lines[path] = lines.get(path, 0) + 1
        where[f"{path}:{lines[path]}"] = include
        tree.add(path, f"#include {include}\n")
    return where


def complaints(out):
    return {":".join(l.split(":")[:2]) for l in out.splitlines() if not l.startswith("lint ")}


def every_allowed_direction_passes():
    with Tree() as t:
        include_all(t, pairs(ALLOWED) + ALLOWED_ELSEWHERE)
        code, out = t.lint("layers")
        assert code == 0 and not complaints(out), out


def every_layering_rule_refuses_its_violation():
    with Tree() as t:
        where = include_all(t, pairs(REFUSED) + REFUSED_ELSEWHERE)
        code, out = t.lint("layers")
        assert code == 1
        # a folder that is in no layer is also told at its first line
        missed = {w: i for w, i in where.items() if w not in complaints(out)}
        assert not missed, missed
        extra = complaints(out) - set(where)
        assert not extra, extra


def files_are_checked():
    with Tree() as t:
        t.add("core/base/good.c", SPDX + "int x;\n")
        t.add("run", "#!/bin/sh\n# SPDX-License-Identifier: MIT\nexit 0\n")
        assert t.lint("files")[0] == 0
        t.add("core/base/long.c", SPDX + "int x;\n" * 620)
        code, out = t.lint("files")
        assert code == 0 and "core/base/long.c: warning" in out, out
        for path, text, line in (
            ("core/base/nolicence.c", "int y;\n", 1),
            ("tests/x.py", "print(1)\n", 1),
            ("tests/tool", "#!/bin/bash\necho\n", 1),
            ("core/base/huge.c", SPDX + "int x;\n" * 1001, 1000),
            ("core/base/later.c", SPDX + "/* TO" "DO: later */\n", 2),
            ("tests/later.sh", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n# FIX" "ME\n", 3),
            ("tests/broken.py", "# SPDX-License-Identifier: MIT\ndef (:\n", 2),
        ):
            full = t.add(path, text)
            code, out = t.lint("files")
            assert code == 1 and f"{path}:{line}:" in out, (path, out)
            os.unlink(full)
        assert t.lint("files")[0] == 0


class Skip(Exception):
    pass


def need(names):
    for name in names.split():
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")


def format_is_held():
    need("clang-format")
    with Tree() as t:
        shutil.copy(os.path.join(SRC, ".clang-format"), t.dir)
        t.add("core/base/a.c", SPDX + "int a(void)\n{\n    return 1;\n}\n")
        assert t.lint("format")[0] == 0
        t.add("core/base/b.c", SPDX + "int b(void) { return 1; }\n")
        code, out = t.lint("format")
        assert code == 1 and "core/base/b.c:2:" in out and "clang-format -i core/base/b.c" in out, out


def shell_scripts_are_checked():
    need("shellcheck")
    with Tree() as t:
        t.add("tests/a", "#!/bin/sh\necho \"$1\"\n")
        assert t.lint("shell")[0] == 0
        t.add("tests/b", "#!/bin/bash\nrm $1\n")
        code, out = t.lint("shell")
        assert code == 1 and "SC2086" in out, out


def analysers_find_a_defect_and_remember_what_is_clean():
    need("clang-tidy cppcheck")
    with Tree() as t:
        for name in (".clang-tidy", "Makefile", "tests/tools/cppcheck.supp"):
            os.makedirs(os.path.dirname(os.path.join(t.dir, name)), exist_ok=True)
            shutil.copy(os.path.join(SRC, name), os.path.join(t.dir, name))
        t.add("tests/tools/analyzer.h", "#pragma once\n")
        t.add("core/base/a.h", "int a(const int *p);\n")
        good = SPDX + '#include "core/base/a.h"\n\nint a(const int *p)\n{\n    return *p;\n}\n'
        t.add("core/base/a.c", good)
        code, out = t.lint("tidy", "cppcheck")
        assert code == 0 and "tidy      1 files" in out, out
        code, out = t.lint("tidy")
        assert code == 0 and "tidy      0 files" in out, out
        t.add("core/base/a.h", "int b(void);\n")
        assert "tidy      1 files" in t.lint("tidy")[1], "a changed header must be looked at again"
        t.add("core/base/a.c", "\nint b(void)\n{\n    int *p = 0;\n    return *p;\n}\n")
        for step in ("tidy", "cppcheck"):
            for _ in range(2):
                code, out = t.lint(step)
                assert code == 1 and "core/base/a.c:12:" in out, out


bad = 0
for test in [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == "__main__"
             and not isinstance(f, type) and f.__code__.co_argcount == 0]:
    try:
        test()
        print(f"ok lint {test.__name__}", flush=True)
    except Skip as e:
        print(f"skip lint {test.__name__}: {e}", flush=True)
    except Exception:
        bad = 1
        traceback.print_exc(file=sys.stdout)
        print(f"not ok lint {test.__name__}", flush=True)
sys.exit(bad)
