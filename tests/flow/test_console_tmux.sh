#!/bin/sh
# SPDX-License-Identifier: MIT
# The console in tmux, as people run it: approve a real request, stop and go on, quit, hang up.
set -u
BIN=${BOXGATE_BIN:-build/release/boxgate}
command -v tmux >/dev/null || { echo "skip console in tmux: tmux is not installed"; exit 0; }

TMP=$(mktemp -d) || exit 1
export BOXGATE_HOME="$TMP/home" LC_ALL=C.UTF-8
SOCK=bgt$$
failed=0

mux() { tmux -u -L "$SOCK" -f /dev/null "$@"; }
screen() { mux capture-pane -p -t 0; }

# shellcheck disable=SC2317 # called by the trap
finish() {
    mux kill-server 2>/dev/null
    "$BIN" server stop --force >/dev/null 2>&1
    rm -rf "$TMP"
}
trap finish EXIT

# wait_for WORDS: on the screen within 10 s.
wait_for() {
    i=0
    while [ $i -lt 100 ]; do
        screen | grep -qF -- "$1" && return 0
        sleep 0.1
        i=$((i + 1))
    done
    return 1
}

check() { # STATUS NAME
    if [ "$1" = 0 ]; then
        echo "ok $2"
    else
        echo "not ok $2"
        screen | sed 's/^/# /'
        failed=1
    fi
}

if ! { "$BIN" init --provider local && "$BIN" server; } >/dev/null 2>&1; then
    echo "skip console in tmux: no server could be started"
    exit 0
fi
mux new-session -d -x 100 -y 30 "env TERM=tmux-256color PS1='shell> ' sh -i"
mux set -g status off
mux send-keys -t 0 "$BIN; echo EXIT=\$?" Enter
wait_for "Nothing waits for a decision"
check $? "the dashboard comes up in tmux"

printf 'print(6 * 7)\n' >"$TMP/a.py"
# shellcheck disable=SC2016 # the inner shell expands it
setsid -f sh -c '"$1" run --lang python "$2/a.py" >"$2/out" 2>"$2/err"; echo $? >"$2/rc"' sh "$BIN" "$TMP"
wait_for "print(6 * 7)"
check $? "a request appears by itself"
mux send-keys -t 0 Enter
wait_for "all seen"
mux send-keys -t 0 a
sleep 1
mux send-keys -t 0 a
wait_for "approved"
check $? "a approves once it was in front long enough"
i=0
while [ ! -s "$TMP/rc" ] && [ $i -lt 100 ]; do
    sleep 0.1
    i=$((i + 1))
done
[ "$(cat "$TMP/out")" = 42 ]
check $? "what was approved has run"

mux send-keys -t 0 C-z
wait_for "shell> "
check $? "^Z gives the shell back"
mux send-keys -t 0 "stty -a | grep -c ' icanon'; fg; echo END=\$?" Enter
wait_for "deadlines went on"
check $? "fg brings the screen back"

mux resize-window -t 0 -x 60 -y 16
wait_for "Pending"
mux resize-window -t 0 -x 30 -y 8
wait_for "30x8 is too small"
check $? "a small window is told"
mux resize-window -t 0 -x 100 -y 30
wait_for "Sessions"
mux send-keys -t 0 q
wait_for "END=0"
check $? "q ends it"
mux send-keys -t 0 "stty -a" Enter
wait_for " icanon"
check $? "the terminal is as it was"
exit $failed
