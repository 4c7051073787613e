#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# A server that has just started: its sockets are there before its provider was tried.
import socket

import lib
from lib import Home, eq, test


@test
def a_session_waits_for_the_provider_to_be_tried():
    for _ in range(3):
        with Home().start() as home, home.rpc("operator") as op:
            eq(op.call("session.create", id="first")["id"], "first")
            eq([s["id"] for s in op.call("session.list")], ["first"])


@test
def one_that_stops_before_answers_what_waits():
    with Home().start() as home:
        op, stop = home.rpc("operator"), home.rpc("operator")
        asked = op.send("session.create", id="first")
        stop.send("server.stop", force=True)
        e, made = None, None
        try:
            made = op.answer(asked)
        except lib.RpcError as error:
            e = error
        except (ConnectionError, socket.timeout):
            raise AssertionError("no answer") from None
        assert made or e.cls == "destroyed" or "stopping" in str(e), e
        op.close()
        stop.close()


if __name__ == "__main__":
    lib.main()
