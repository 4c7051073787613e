#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/CASES.md, the table of real failures of other tools: every test it names is there and
# carries the case's number, every numbered test's case is told, every row says something.
import os
import re

from lib import SRC, main, test

TESTS = os.path.join(SRC, "tests")
ID = re.compile(r"(?:^|_)(c\d{3}|av\d{2})(?=_|$)")
NAMED = re.compile(r"^(?:static void|def) (\w+)\(", re.M)


def read(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as f:
        return f.read()


def rows():
    """(ids, what): ids of the first cell, text of the second."""
    out = []
    for line in read("tests/CASES.md").splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 2 and re.match(r"(C\d{3}|AV\d{2})\b", cells[0]):
            out.append((re.findall(r"C\d{3}|AV\d{2}", cells[0]), cells[1]))
    return out


def tests_of(text):
    return re.findall(r"(tests/[\w./-]+)::(\w+)", text)


@test
def every_named_test_is_there():
    bad = []
    for ids, what in rows():
        for path, name in tests_of(what):
            if not os.path.isfile(os.path.join(SRC, path)):
                bad.append(f"{path} is not there")
                continue
            text = read(path)
            if name not in NAMED.findall(text):
                bad.append(f"{path} has no {name}")
            if path.endswith((".c", ".h")) and len(re.findall(rf"\b{name}\b", text)) < 2:
                bad.append(f"{path}: {name} is never run")
            if not set(ID.findall(name)) & {i.lower() for i in ids}:
                bad.append(f"{name} does not carry {ids}")
    assert not bad, "\n".join(bad)


@test
def every_row_names_a_test_or_says_why_not():
    seen = [i for ids, _ in rows() for i in ids]
    assert len(seen) > 100 and len(seen) == len(set(seen)), "a case is missing or stands twice"
    bad = [ids for ids, what in rows() if not tests_of(what) and not re.search(r"later: \w{3,}", what)]
    assert not bad, bad


@test
def every_numbered_test_has_its_row():
    told = {i.lower() for ids, what in rows() if tests_of(what) for i in ids}
    bad = []
    for folder, _, names in os.walk(TESTS):
        for n in names:
            if n.endswith((".c", ".h", ".py")):
                for name in NAMED.findall(read(os.path.join(folder, n))):
                    bad += [f"{n}: {name}"] if set(ID.findall(name)) - told else []
    assert not bad, "tests/CASES.md names no test for:\n" + "\n".join(bad)


@test
def c004_c073_streams_never_come_by_the_engine():
    """What the engine's attach, wait and exec get wrong can't happen where nobody calls them."""
    used = []
    for folder in ("core/engine", "core/provider/container"):
        for n in os.listdir(os.path.join(SRC, folder)):
            used += re.findall(r'"[^"\n]*/(?:attach|wait|exec|logs)\b[^"\n]*"', read(f"{folder}/{n}"))
    assert not used, used


main()
