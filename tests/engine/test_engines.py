#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# The private engines and stand-in images that the other engine tests stand on: both start and answer, every
# image runs (or can't) as it should, and nothing of this machine's own network was touched.
import os
import subprocess
import sys
import traceback

SRC = os.environ.get("BOXGATE_SRC") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
ENGINE = os.path.join(SRC, "tests/tools/engine")
IMAGES = os.path.join(SRC, "tests/tools/images")


def out(*command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=230, **more).stdout


def links():
    return set(os.listdir("/sys/class/net"))


class Engine:
    def __init__(self, name):
        self.name = name
        out(ENGINE, "start", name)
        socket = out(ENGINE, "socket", name).strip()
        assert len(socket) < 107, socket
        self.client = ["docker", "-H", "unix://" + socket] if name == "docker" else [
            "podman", "--url", "unix://" + socket]

    def run(self, image, *command, options=()):
        return subprocess.run([*self.client, "run", "--rm", *options, f"boxgate-test/{image}:1", *command],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)


def start_is_idempotent(e):
    pid = out(ENGINE, "status")
    out(ENGINE, "start", e.name)
    assert out(ENGINE, "status") == pid and f"{e.name} runs" in pid, pid


def python_runs_confined(e):
    limits = ["--network=none", "--memory=128m", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    r = e.run("python", "python3", "-c", "print(sum(range(10)))", options=limits)
    assert (r.returncode, r.stdout) == (0, "45\n"), r
    r = e.run("python", "bash", "-c", "ls /sys/class/net", options=limits)
    assert r.stdout.split() == ["lo"], r


def noshell_has_no_shell(e):
    r = e.run("noshell")
    assert (r.returncode, r.stdout) == (0, "hello\n"), r
    assert e.run("noshell", "sh", "-c", "true").returncode != 0


def arm64_is_foreign(e):
    arch = out(*e.client, "image", "inspect", "-f", "{{.Architecture}}", "boxgate-test/arm64:1")
    assert arch == "arm64\n", arch
    assert e.run("arm64").returncode != 0


def network_works_inside_its_own_namespace(e):
    before = links()
    r = e.run("python", "bash", "-c", "ls /sys/class/net")
    assert set(r.stdout.split()) == {"lo", "eth0"}, r
    if os.environ.get("BOXGATE_ENGINE_NET") != "host":
        assert links() == before, links() ^ before


def main():
    if os.geteuid() != 0:
        print("skip engines: needs root")
        return 0
    bad = 0
    before = links()
    engines = [Engine("docker"), Engine("podman")]
    out(IMAGES, "docker", "podman")
    if os.environ.get("BOXGATE_ENGINE_NET") != "host":
        assert links() == before, "an engine made a network of this machine"
    for test in (start_is_idempotent, python_runs_confined, noshell_has_no_shell, arm64_is_foreign,
                 network_works_inside_its_own_namespace):
        for e in engines:
            try:
                test(e)
                print(f"ok engines {e.name} {test.__name__}", flush=True)
            except Exception:
                bad = 1
                traceback.print_exc(file=sys.stdout)
                print(f"not ok engines {e.name} {test.__name__}", flush=True)
    return bad


sys.exit(main())
