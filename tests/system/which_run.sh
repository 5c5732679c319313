#!/usr/bin/env bash
# Which run is meant by nobody's name: the newest that has trained a step, wherever it lies, and before one that is over one
# that goes on.
source "$(dirname "$0")/launcher.sh"
latest() { readlink -f runs/latest; }

expect 66 status
expect_text err "has trained a step"
FAKE_RANK="steps=3" expect 0 train.json
first=$(latest)
[ "$(dirname "$first")" = "$PWD/runs" ] || fail "runs/latest is $first"
FAKE_RANK="rank=0 at=1 do=data" expect 65 train.json  # before its first step
[ "$(latest)" = "$first" ] || fail "a run that has trained nothing is the latest: $(latest)"
FAKE_RANK="steps=3" expect 0 train.json --run-dir else/where
[ "$(latest)" = "$PWD/else/where" ] || fail "a run elsewhere is not the latest: $(latest)"
expect 0 status --json
expect_text out '"phase": "done"'

# One that goes on is meant before the latest, which is over; of several nobody knows.
FAKE_RANK="steps=100000 step_ms=10" dslaunch train.json > one.out 2> one.err &
one=$!
wait_until "a run that goes on" sh -c 'dslaunch status --json | grep -q "\"phase\": \"running\""'
FAKE_RANK="steps=3" expect 0 train.json --run-dir else/again
expect 0 status --json
expect_text out '"phase": "running"'
FAKE_RANK="steps=100000 step_ms=10" dslaunch train.json > two.out 2> two.err &
two=$!
wait_until "a second run's first step" sh -c '[ "$(readlink -f runs/latest)" != "$PWD/else/again" ]'
FAKE_RANK="steps=3" expect 0 train.json --run-dir else/again
expect 2 status
expect_text err "2 runs go on here (runs/train-"
kill -INT $one $two
wait $one $two
finish
