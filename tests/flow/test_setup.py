#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Every branch of tests/tools/setup, on a PATH of stand-ins for dpkg-query, apt-get, id and sudo:
# what is installed, who we are and how apt behaves are the test's choice. Nothing is installed.
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

SRC = os.environ.get("BOXGATE_SRC") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
REAL = "dirname sed grep tail tr mkdir rm cat date sleep env tee chmod".split()

DPKG_QUERY = """#!/bin/sh
for p in "$@"; do
    case $p in -*) continue ;; esac
    case " $(cat "$FAKE/missing") " in *" $p "*) ;; *) echo "$p installed" ;; esac
done
"""
APT_GET = """#!/bin/sh
echo "$*" >>"$FAKE/calls"
case "$*" in
*--print-uris*) [ -e "$FAKE/stale" ] && exit 100; exit 0 ;;
*update*) rm -f "$FAKE/stale"; exit 0 ;;
esac
[ -e "$BOXGATE_POLICY_RC" ] && echo policy >>"$FAKE/calls"
. "$FAKE/apt"
"""
GOOD = "echo 'Setting up it ...'; : >\"$FAKE/missing\""


class Machine:
    """One fake machine: its own source tree with only the script, its own PATH."""

    def __init__(self, missing="", uid=0, apt=GOOD, sudo=None, debian=True):
        self.dir = tempfile.mkdtemp(prefix="bg-setup-")
        self.bin = os.path.join(self.dir, "bin")
        os.makedirs(self.bin)
        os.makedirs(os.path.join(self.dir, "tests/tools"))
        shutil.copy(os.path.join(SRC, "tests/tools/setup"), os.path.join(self.dir, "tests/tools/setup"))
        for name in REAL:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        self.write("missing", missing)
        self.write("apt", apt)
        self.write("calls", "")
        self.stub("id", f"#!/bin/sh\necho {uid}\n")
        if debian:
            self.stub("dpkg-query", DPKG_QUERY)
            self.stub("apt-get", APT_GET)
        if sudo:
            self.stub("sudo", sudo)
        self.policy = os.path.join(self.dir, "policy-rc.d")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.dir, name)) as f:
            return f.read()

    def stub(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def env(self, **more):
        return {"PATH": self.bin, "FAKE": self.dir, "BOXGATE_POLICY_RC": self.policy, **more}

    def run(self, *args, **more):
        r = subprocess.run([os.path.join(self.dir, "tests/tools/setup"), *args], env=self.env(**more),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=60)
        assert r.stdout == "", f"stdout must stay empty: {r.stdout!r}"
        return r.returncode, r.stderr


def nothing_missing_is_silent_and_fast():
    with Machine() as m:
        best = 9.0
        for _ in range(5):
            begin = time.monotonic()
            assert m.run("test") == (0, "")
            best = min(best, time.monotonic() - begin)
        assert best < 0.2, f"{best:.3f} s"
        assert m.read("calls") == ""
        assert not os.path.exists(os.path.join(m.dir, "build"))


def root_installs_exactly_what_is_missing():
    with Machine(missing="libuv1-dev bubblewrap") as m:
        code, err = m.run("demo")
        assert code == 0, err
        assert err.startswith("installing 2 packages (about 1 min); log: build/setup.log\n"), err
        install = [c for c in m.read("calls").splitlines() if " install " in c]
        assert len(install) == 1 and install[0].endswith(" libuv1-dev bubblewrap"), install
        for option in ("--no-remove", "--no-install-recommends", "DPkg::Lock::Timeout=120"):
            assert option in install[0], option
        assert "update" not in m.read("calls")
        assert "Setting up it" in m.read("build/setup.log")


def purposes_differ():
    with Machine(missing="bubblewrap cppcheck") as m:
        assert m.run("build") == (0, "")
        assert "cppcheck" not in m.run("demo", SETUP="no")[1]
        assert "cppcheck" in m.run("test", SETUP="no")[1]


def daemons_are_kept_down_while_installing():
    with Machine(missing="libuv1-dev") as m:
        assert m.run("build")[0] == 0
        assert "policy\n" in m.read("calls")
        assert not os.path.exists(m.policy), "left behind"
    with Machine(missing="libuv1-dev") as m:
        with open(m.policy, "w") as f:
            f.write("somebody's\n")
        assert m.run("build")[0] == 0
        with open(m.policy) as f:
            assert f.read() == "somebody's\n"


def unknown_packages_mean_update_first():
    with Machine(missing="libuv1-dev") as m:
        m.write("stale", "")
        code, err = m.run("build")
        assert code == 0 and "  apt-get update\n" in err, err
        calls = m.read("calls")
        assert calls.index("update") < calls.index(" install "), calls


def stale_lists_mean_update_and_once_more():
    apt = 'if [ -e "$FAKE/second" ]; then ' + GOOD + '; else : >"$FAKE/second"; echo "E: 404  Not Found"; exit 100; fi'
    with Machine(missing="libuv1-dev", apt=apt) as m:
        code, err = m.run("build")
        assert code == 0 and "out of date" in err, err


def a_held_lock_is_waited_for_and_said():
    apt = 'if [ -e "$FAKE/second" ]; then ' + GOOD + '; else : >"$FAKE/second"; ' \
          'echo "E: Could not get lock /var/cache/apt/archives/lock"; exit 100; fi'
    with Machine(missing="libuv1-dev", apt=apt) as m:
        code, err = m.run("build")
        assert code == 0 and "another apt holds the lock" in err, err


def a_slow_apt_is_never_silent():
    with Machine(missing="libuv1-dev", apt="echo 'Unpacking it'; sleep 13; " + GOOD) as m:
        p = subprocess.Popen([os.path.join(m.dir, "tests/tools/setup"), "build"], env=m.env(),
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        worst, last = 0.0, time.monotonic()
        for _ in p.stderr:
            worst, last = max(worst, time.monotonic() - last), time.monotonic()
        assert p.wait(20) == 0
        assert worst < 10, f"{worst:.1f} s of silence"


def a_failing_apt_is_shown():
    apt = 'i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo "apt line $i"; done; exit 100'
    with Machine(missing="libuv1-dev libyaml-dev", apt=apt) as m:
        code, err = m.run("build")
        assert code == 1
        lines = err.splitlines()
        assert [l for l in lines if l.startswith("apt line")] == [f"apt line {i}" for i in range(26, 41)], err
        assert "the whole log: build/setup.log" in lines
        assert lines[-1].split() == ("run by hand: apt-get install -y --no-install-recommends "
                                     "libyaml-dev libuv1-dev").split(), lines[-1]
        assert not os.path.exists(m.policy), "policy-rc.d left behind"


def installed_but_still_missing_is_a_failure():
    with Machine(missing="libuv1-dev", apt="exit 0") as m:
        assert m.run("build")[0] == 1


def not_root_and_no_sudo_prints_the_command():
    with Machine(missing="libuv1-dev", uid=1000) as m:
        code, err = m.run("build")
        assert code == 1 and m.read("calls") == ""
        assert "run by hand: sudo apt-get install -y --no-install-recommends libuv1-dev" in err, err
        assert not os.path.exists(os.path.join(m.dir, "build")), "half-done"


def sudo_that_would_ask_is_refused_without_a_terminal():
    with Machine(missing="libuv1-dev", uid=1000, sudo="#!/bin/sh\nexit 1\n") as m:
        code, err = m.run("build")
        assert code == 1 and "run by hand: sudo apt-get" in err and m.read("calls") == "", err


def sudo_is_used():
    sudo = '#!/bin/sh\n[ "$1" = -n ] && shift\necho "sudo $*" >>"$FAKE/calls"\nexec "$@"\n'
    with Machine(missing="libuv1-dev", uid=1000, sudo=sudo) as m:
        m.stub("true", "#!/bin/sh\nexit 0\n")
        code, err = m.run("build")
        assert code == 0, err
        calls = m.read("calls")
        assert f"sudo tee {m.policy}" in calls and f"sudo rm -f {m.policy}" in calls, calls
        assert any(c.startswith("sudo env ") and c.endswith(" libuv1-dev") for c in calls.splitlines()), calls


def setup_no_never_installs():
    with Machine(missing="libuv1-dev") as m:
        code, err = m.run("build", SETUP="no")
        assert code == 1 and "libuv1-dev" in err and m.read("calls") == "", err
    with Machine() as m:
        assert m.run("build", SETUP="no") == (0, "")


def not_debian_prints_the_list():
    with Machine(debian=False) as m:
        code, err = m.run("test")
        assert code == 1 and "not Debian" in err and "libuv1-dev" in err and "docker.io" in err, err


def another_docker_is_left_alone():
    with Machine(missing="docker.io") as m:
        m.stub("dockerd", "#!/bin/sh\n")
        assert m.run("test") == (0, "")


def a_wrong_purpose_is_usage():
    with Machine() as m:
        assert m.run("nonsense")[0] == 2
        assert m.run()[0] == 2


def make_stops_with_setup():
    """The Makefile's side: lines arrive while setup runs, and its failure ends make."""
    with Machine() as m:
        shutil.copy(os.path.join(SRC, "Makefile"), os.path.join(m.dir, "Makefile"))
        script = os.path.join(m.dir, "tests/tools/setup")
        with open(script, "w") as f:
            f.write('#!/bin/sh\necho "asked: $1 $SETUP" >&2\nsleep 2\necho late >&2\nexit 1\n')
        env = {k: v for k, v in os.environ.items() if k not in ("BOXGATE_SETUP", "MAKEFLAGS", "MAKELEVEL")}
        p = subprocess.Popen(["make", "-C", m.dir, "SETUP=no", "test-unit"], env=env, text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        begin = time.monotonic()
        assert p.stderr.readline() == "asked: test no\n"
        assert time.monotonic() - begin < 1.9, "the first line came only at the end"
        rest = p.stderr.read()
        assert p.wait(20) != 0
        assert "late" in rest and "***" in rest and "No rule" not in rest, rest
        for goal, want in (("demo", "demo"), ("all", "build"), ("fuzz", "test")):
            p = subprocess.run(["make", "-C", m.dir, goal], env=env, text=True, capture_output=True)
            assert p.returncode != 0 and p.stderr.startswith(f"asked: {want} \n"), p.stderr
        assert subprocess.run(["make", "-C", m.dir, "help"], env=env, capture_output=True).returncode == 0


bad = 0
for test in [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == "__main__"
             and not isinstance(f, type)]:
    try:
        test()
        print(f"ok setup {test.__name__}", flush=True)
    except Exception:
        bad = 1
        traceback.print_exc(file=sys.stdout)
        print(f"not ok setup {test.__name__}", flush=True)
sys.exit(bad)
