#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs test programs one after another and ends with the one line that sums them.
# A program reports either as cmocka does or by lines "ok NAME", "not ok NAME", "skip NAME: why".
# A crash, a time-out or a program that reports nothing counts as failed.
set -u
pass=0 fail=0 skip=0 skips=()
build=${BOXGATE_BUILD:-build/release}
logs=$build/test-logs
mkdir -p "$logs"
for t in "$@"; do
    name=${t##*/tests/}
    name=${name#tests/}
    log=$logs/$(printf '%s' "$name" | tr / _).log
    begin=$(date +%s%N)
    timeout -k 5 "${TEST_TIMEOUT:-240}" "$t" >"$log" 2>&1 </dev/null
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    if grep -qa '^\[==========\]' "$log"; then
        p=$(grep -ca '^\[       OK \]' "$log")
        f=$(($(grep -ca '^\[  FAILED  \] [^0-9]' "$log") / 2))
        s=$(($(grep -ca '^\[  SKIPPED \] [^0-9]' "$log") / 2))
        why=$(grep -a '^\[  SKIPPED \] [^0-9]' "$log" | sort -u)
    else
        p=$(grep -ca '^ok ' "$log")
        f=$(grep -ca '^not ok ' "$log")
        s=$(grep -ca '^skip ' "$log")
        why=$(grep -a '^skip ' "$log")
    fi
    if [ $code -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
    fi
    if [ $((p + f + s)) -eq 0 ]; then
        f=1
    fi
    if [ "$f" -gt 0 ]; then
        echo "---- $name (exit $code) ----"
        tail -n 60 "$log" | cat -v
        echo "---- end of $name; whole log: $log ----"
    fi
    printf '%-44s %4d ok %3d failed %3d skipped %6d ms\n' "$name" "$p" "$f" "$s" "$took"
    [ -n "$why" ] && skips+=("$name: $why")
    pass=$((pass + p)) fail=$((fail + f)) skip=$((skip + s))
done
for s in "${skips[@]:-}"; do [ -n "$s" ] && printf 'skipped: %s\n' "$s"; done
if [ $((pass + fail)) -eq 0 ]; then
    echo 'no test ran' >&2
    fail=1
fi
echo "boxgate: $pass passed, $fail failed, $skip skipped"
[ "$fail" -eq 0 ]
