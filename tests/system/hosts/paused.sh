#!/usr/bin/env bash
# A launcher that stands still while its ranks run on other hosts: up to 10 s cost nothing. After 12 s the hosts give
# it up, as they must; then the launcher says that it was itself, blames nobody, and goes on with all of them.
source "$(dirname "$0")/hosts.sh"
steps() { wc -l < run/metrics.jsonl; }
process() { pgrep -P "$launcher" -x dslaunch || echo "$launcher"; }  # below `ip netns exec`

still() {
  kill -STOP "$(process)"
  sleep "$1"
  kill -CONT "$(process)"
}

start_on_hosts "${by_ssh[@]}" --max-restarts 0 --env FAKE_RANK="steps=1200 step_ms=20"
for pause in 3.5 9; do still $pause; sleep 2; done
expect_end 0
[ "$(steps)" -eq 1200 ] || fail "metrics have $(steps) of 1200 steps"
grep -q '"event": "fault"' err && fail "somebody was blamed: $(head -1 err)"
[ "$(grep -c "itself stood still for" out)" -ge 2 ] || fail "the launcher does not say that it stood still"

# Ranks that finish meanwhile are not called dead.
start_on_hosts "${by_ssh[@]}" --max-restarts 0 --env FAKE_RANK="steps=200 step_ms=10"
still 6
expect_end 0
[ "$(steps)" -eq 200 ] || fail "metrics have $(steps) of 200 steps"

start_on_hosts "${by_ssh[@]}" --max-restarts 1 --env FAKE_RANK="steps=1500 step_ms=20"
for pause in 14 14; do  # more often than restarts are allowed
  wait_at_most 20 "running ranks" sh -c "[ \$(grep -c 'all 4 ranks joined' run/logs/dslaunch.log) -gt ${again:-0} ]"
  again=$((${again:-0} + 1))
  sleep 1
  still $pause
done
expect_end 0
expect_text out "longer than its agents on the hosts wait for it (12 s); generation 2 with 4 ranks"
[ "$(steps)" -eq 1500 ] || fail "metrics have $(steps) of 1500 steps"
wait_until "an empty cluster" nobody_left
finish
