#!/usr/bin/env bash
# With too few hosts left a run waits for those that were lost: it goes on when they are back, ends with 76 when
# they stay away, and stops when the user does not want to wait.
source "$(dirname "$0")/hosts.sh"

forever=("${by_ssh[@]}" --env FAKE_RANK="steps=100000 step_ms=20")
says() { grep -qF -- "$1" out; }
cut() { ip -n "${nodes[1]}" link set eth0 "$1"; }
lose_a_host() {  # lose_a_host <words...>
  start_on_hosts "${forever[@]}" "$@"
  cut down
  wait_at_most 30 "a loss" says "lost hosts to come back"
}

lose_a_host --max-restarts 1 || finish
expect_text out "1 of 2 nodes are left"
# Longer than an agent endures the silence of its launcher: the host that stayed must not be lost over it.
sleep 15
cut up
wait_at_most 40 "the host" says "hosts are back: generation 2 with 4 ranks" || finish
wait_until "ranks of generation 2" grep -q "generation 2: rank 3" run/logs/dslaunch.log
kill -TERM "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left

lose_a_host --wait-for-hosts 3s || finish
expect_end 76
expect_text out "after 3 s not enough have come back"
expect_text run/report.json '"exit_code": 76'
cut up
wait_at_most 20 "an empty cluster" nobody_left

lose_a_host || finish
kill -INT "$launcher"
expect_end 130
cut up
wait_at_most 20 "an empty cluster" nobody_left
finish
