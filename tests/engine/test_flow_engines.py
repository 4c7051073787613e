#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# The main job on a real Docker and a real Podman, through the public commands: init, ask, approve or deny, the
# result and the record; an engine that stops in the middle; a server that is killed; Podman started by boxgate.
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../flow"))
import lib  # noqa: E402
from lib import SRC, Home, eq, has, test, wait_for  # noqa: E402

TOOL = os.path.join(SRC, "tests/tools/engine")
ENGINES = ("docker", "podman")
IMAGE = "boxgate-test/python:1"


def tool(*args):
    return subprocess.run([TOOL, *args], check=True, text=True, stdout=subprocess.PIPE, timeout=120).stdout.strip()


def prepare():
    for e in ENGINES:
        tool("start", e)
    subprocess.run([os.path.join(SRC, "tests/tools/images"), *ENGINES], check=True, capture_output=True, timeout=200)


def client(engine):
    socket = "unix://" + tool("socket", engine)
    return ["docker", "-H", socket] if engine == "docker" else ["podman", "--url", socket]


def labelled(engine, instance):
    """Names of the containers a server made, whatever their state."""
    out = subprocess.run([*client(engine), "ps", "-a", "--filter", f"label=boxgate.instance={instance}",
                          "--format", "{{.Names}}"], check=True, text=True, capture_output=True, timeout=60).stdout
    return out.split()


class EngineHome(Home):
    def __init__(self, engine, more="", engine_keys=None):
        keys = engine_keys or f'endpoint: "unix://{tool("socket", engine)}"'
        super().__init__(config=f"version: 1\nprovider: container\nengine: {{{keys}}}\n"
                                f"profiles: {{default: {{image: {IMAGE}, pull: never{more}}}}}\n")
        self.engine = engine

    @property
    def instance(self):
        with open(os.path.join(self.path, "state/instance"), encoding="ascii") as f:
            return f.read().strip()


def on_each(fn):
    """One test per engine."""
    for engine in ENGINES:
        def one(engine=engine):
            fn(engine)
        one.__name__ = f"{engine}_{fn.__name__}"
        test(one)
    return fn


@on_each
def init_finds_it_and_approved_code_runs(engine):
    with Home(config="") as h:
        r = h.ok("init", "--provider", "container", "--endpoint", "unix://" + tool("socket", engine))
        has(r.text, f"version: {engine} ")
        with open(h.config_file, encoding="utf-8") as f:
            text = f.read()
        has(text, tool("socket", engine))
        h.put(h.config_file, text.replace("image: node:22-bookworm", f"pull: never\n    image: {IMAGE}"))
        has(h.ok("doctor").text, f"{engine} ")
        h.start()
        r = h.approved_run("import os; print(sum(range(10)), os.getuid(), os.listdir('/sys/class/net'))")
        eq((r.rc, r.text), (0, "45 1000 ['lo']\n"), r)
        wait_for("the record of its end", lambda: len(h.audit("request.finished")) == 1)


@test
def init_writes_what_the_environment_names():
    with Home(config="") as h:
        h.env["DOCKER_HOST"] = "unix://" + tool("socket", "docker")
        h.ok("init", "--provider", "container")
        with open(h.config_file, encoding="utf-8") as f:
            has(f.read(), tool("socket", "docker"))
        h.env["DOCKER_HOST"] = "tcp://127.0.0.1:2375"
        r = h.ok("init", "--provider", "container", "--force")
        has(r.why, "only an engine on this machine")
        with open(h.config_file, encoding="utf-8") as f:
            assert "2375" not in f.read()


@on_each
def denied_code_makes_no_container(engine):
    with EngineHome(engine) as h:
        h.start()
        a = h.run("open('/workspace/ran', 'w')")
        row = h.pending()
        has(h.ok("show", str(row["id"])).text, f"runs in: {engine}, image {IMAGE}")
        h.ok("deny", str(row["id"]), "--reason", "no thanks")
        r = a.wait()
        eq(r.rc, 125, r)
        has(r.why, "no thanks")
        eq(labelled(engine, h.instance), [])


@on_each
def a_language_the_image_lacks_is_never_asked_for(engine):
    with EngineHome(engine) as h:
        h.start()
        r = h.run("console.log(1)", lang="javascript").wait()
        eq(r.rc, 125, r)
        has(r.why, "node")
        eq(h.rows(), [])


@on_each
def sessions_keep_files_and_end_without_a_trace(engine):
    with EngineHome(engine) as h:
        h.start()
        h.ok("session", "create", "--id", "work")
        eq(h.approved_run("open('f', 'w').write('kept')", "--session", "work").rc, 0)
        eq(h.approved_run("print(open('f').read())", "--session", "work").text, "kept\n")
        rows = json.loads(h.ok("sessions", "--json").out)
        eq([(x["id"], x["provider"]) for x in rows], [("work", engine)])
        eq(len(labelled(engine, h.instance)), 1)
        h.ok("session", "rm", "work")
        wait_for("the container to be gone", lambda: not labelled(engine, h.instance))


@on_each
def a_timeout_leaves_nothing_running(engine):
    with EngineHome(engine) as h:
        h.start()
        h.ok("session", "create", "--id", "t")
        r = h.approved_run("sleep 60 & sleep 60", "--timeout", "1s", "--session", "t", lang="bash")
        eq(r.rc, 124, r)
        r = h.approved_run("ps -e -o comm= | grep -c sleep", "--session", "t", lang="bash")
        eq(r.text, "0\n", r)


@on_each
def an_engine_that_stops_in_the_middle_is_no_result(engine):
    with EngineHome(engine) as h:
        h.start()
        a = h.run("import time; print('begun', flush=True); time.sleep(60)")
        h.approve(h.pending())
        wait_for("the program to run", lambda: b"begun" in a.read("out"), 20)
        tool("stop", engine)
        try:
            r = a.wait(40)
            eq(r.rc, 125, r)
            has(r.why, "boxgate: lost")
            r = h.run("print('never')").wait(40)
            eq(r.rc, 125, r)
            has(r.why, "engine")
        finally:
            tool("start", engine)
        eq(h.approved_run("print('again')").text, "again\n")


@on_each
def c110_what_a_killed_server_left_goes_at_the_next_start(engine):
    with EngineHome(engine) as h:
        h.start()
        h.ok("session", "create", "--id", "left")
        eq(h.approved_run("print(1)", "--session", "left").rc, 0)
        eq(len(labelled(engine, h.instance)), 1)
        h.crash()
        eq(len(labelled(engine, h.instance)), 1)
        h.start()
        wait_for("the sweep", lambda: not labelled(engine, h.instance), 20)


@test
def podman_service_is_started_and_ends_with_the_server():
    """Nobody serves Podman's API here but boxgate itself."""
    words = dict(w.split("=", 1) for w in tool("env", "podman").split()[1:])
    with EngineHome("podman", engine_keys="runtime: podman") as h:
        h.env.update({k: v for k, v in words.items() if k != "CONTAINER_HOST"})
        h.env["XDG_RUNTIME_DIR"] = h.tmp
        h.start()
        r = h.approved_run("print('served')")
        if r.rc and "network" in r.why:
            raise lib.Skip(r.why)
        eq((r.rc, r.text), (0, "served\n"), r)
        socket = os.path.join(h.runtime, "podman.sock")
        assert os.path.exists(socket)
        h.ok("server", "stop", "--force")
        wait_for("the socket to be gone", lambda: not os.path.exists(socket))
        wait_for("the service to end",
                 lambda: not subprocess.run(["pgrep", "-f", f"unix://{socket}"], capture_output=True,
                                            check=False).stdout, 15)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skip engines: needs root")
        sys.exit(0)
    prepare()
    sys.exit(lib.main())
