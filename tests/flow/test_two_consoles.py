#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Two consoles decide the same request at the same moment, one approving, one denying: one of
# them wins, the other is told who was first and how, and the record holds one decision.
import json
import os
import re
import time

import lib
from lib import Home, RpcError, eq, test, wait_for

ROUNDS = 1000
BATCH = 8        # requests a connection may have pending
APART_S = 0.0015 # between the moments of one batch


def verb(console, n):
    return "approve" if (console + n) % 2 == 0 else "deny"


def console(home, me, orders, answers):
    """A process of its own: at each named moment one decision, then what came of it."""
    with home.rpc("operator") as op, os.fdopen(orders) as orders, os.fdopen(answers, "w") as answers:
        for line in orders:
            got = []
            for n, at, row in json.loads(line):
                time.sleep(max(0, at - time.monotonic()))
                try:
                    op.call("approval.decide", id=row["id"], rev=row["rev"], sha256=row["sha256"],
                            decision=verb(me, n), reason=f"console {me}")
                    got.append(None)
                except RpcError as e:
                    got.append([e.code, e.cls, str(e)])
            print(json.dumps(got), file=answers, flush=True)
    os._exit(0)


class Console:
    def __init__(self, home, me):
        there, self.orders = os.pipe()
        self.answers, back = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.orders)
            console(home, me, there, back)
        os.close(there)
        os.close(back)
        self.answers = os.fdopen(self.answers)

    def send(self, batch):
        os.write(self.orders, json.dumps(batch).encode() + b"\n")

    @staticmethod
    def end(consoles):
        for c in consoles: # a later one holds the earlier one's end too: close all, then wait
            os.close(c.orders)
        for c in consoles:
            os.waitpid(c.pid, 0)
            c.answers.close()


def answers_of(rpc, asked):
    """They come in any order."""
    got = {}
    while len(got) < len(asked):
        m = rpc.line()
        got[m["id"]] = m["result"]
    return [got[a] for a in asked]


def check(n, row, results, pids):
    """The winner's number."""
    winners = [i for i in (0, 1) if results[i] is None]
    eq(len(winners), 1, f"winners of round {n}: {results}")
    winner = winners[0]
    code, _, text = results[1 - winner]
    eq(code, -32004, text)
    word = {"approve": "approved", "deny": "denied"}[verb(winner, n)]
    assert re.search(rf"#0*{row['id']} was already {word} by uid {os.getuid()} \(pid {pids[winner]}, flow 1\)", text), \
        f"round {n}, winner {pids[winner]} ({word}): {text}"
    return winner


@test
def one_winner_in_a_thousand_rounds():
    with Home().start() as home:
        consoles = [Console(home, i) for i in (0, 1)]
        pids = [c.pid for c in consoles]
        op, agent = home.rpc("operator"), home.rpc("agent")
        op.call("session.create", id="s")
        wins, won = [0, 0], {}
        for first in range(0, ROUNDS, BATCH):
            asked = [agent.send("request.submit", kind="exec", session="s", waitMs=0,
                                body={"command": "true", "args": [str(n)]}) for n in range(first, first + BATCH)]
            rows = answers_of(agent, asked)
            rows = [{"id": r["approvalId"], "rev": r["rev"], "sha256": r["sha256"]} for r in rows]
            start = time.monotonic() + 0.005
            batch = [(first + i, start + i * APART_S, row) for i, row in enumerate(rows)]
            for c in consoles:
                c.send(batch)
            got = [json.loads(c.answers.readline()) for c in consoles]
            for i, row in enumerate(rows):
                winner = check(first + i, row, [g[i] for g in got], pids)
                wins[winner] += 1
                won[row["id"]] = verb(winner, first + i)
        Console.end(consoles)
        eq(len(won), ROUNDS)
        assert min(wins) > ROUNDS / 20, f"one console won nearly always: {wins}"
        wait_for("all to end, on the disk too", lambda: len(home.audit("request.finished")) == ROUNDS)
        op.close()
        agent.close()
        check_record(home, won)
        home.ok("audit", "verify")


def check_record(home, won):
    events = {}
    for r in home.audit():
        if r.get("id"):
            events.setdefault(r["id"], []).append(r)
    eq(set(events), set(won), "the requests in the record")
    for id_, rows in events.items():
        decided = [r["decision"] for r in rows if r["event"] == "request.decided"]
        eq(decided, [won[id_]], f"decisions on request {id_}")
        ran = [r["event"] for r in rows if r["event"] in ("request.claimed", "request.started")]
        eq(ran, ["request.claimed", "request.started"] if won[id_] == "approve" else [], f"request {id_} ran")
        eq([r["state"] for r in rows if r["event"] == "request.finished"],
           ["done" if won[id_] == "approve" else "denied"], f"end of request {id_}")


if __name__ == "__main__":
    lib.main()
