#!/usr/bin/env bash
# States in memory over two hosts, with no checkpoint on any disk: a lost process and a lost host cost the
# steps since the last such state; the copies on the other host are what is left of the lost one.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
every=5
kept=(train.steps=300 train.save_in_memory_every=1 "train.copy_in_memory_every=$every" zero_optimization.stage=2)

# resumed_within <steps>: the first restart went on from memory, at most so many steps back.
resumed_within() {
  local resumed failed
  resumed=$(sed -n 's/^resumed step=\([0-9]*\) from=memory.*/\1/p' out | head -1)
  failed=$(sed -n 's/.*"event": "fault".*"step": \([0-9]*\).*/\1/p' err | head -1)
  [ -n "$resumed" ] || { fail "did not go on from memory"; return; }
  [ "$((failed - resumed))" -le "$1" ] || fail "failed in step $failed, resumed at $resumed"
}
steps_done() { [ "$(cat run/metrics.jsonl 2> /dev/null | wc -l)" -gt "$1" ]; }

timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir local "${kept[@]}" > out 2> err ||
  fail "local training: exit code $?"

# A process: all four ranks start anew, each on its own host.
start_on_hosts "${by_ssh[@]}" --num-threads 1 "${kept[@]}"
wait_until "40 steps" steps_done 40
kill -KILL "$(processes_of "${nodes[1]}" rankd | tail -1)"
expect_end 0
resumed_within 1
cmp local/final/model.safetensors run/final/model.safetensors || fail "a lost process: other weights"
wait_until "an empty cluster" nobody_left

# A host: its end of the network is gone, and what ran there cannot reach anybody. Two ranks go on.
start_on_hosts "${by_ssh[@]}" --num-threads 1 --nodes 1:2 "${kept[@]}" train.steps=600
wait_until "40 steps" steps_done 40
ip -n "$here" link del port1
wait_until_long() {
  local i
  for ((i = 0; i < 30; i++)); do grep -q "^resumed step=" out && return 0; sleep 1; done
  fail "waited 30 s for the other host to go on"
}
wait_until_long
resumed_within $every
expect_text out "with 2 ranks from memory, or the beginning"
expect_end 0
[ "$(wc -l < run/metrics.jsonl)" -eq 600 ] || fail "the metrics have $(wc -l < run/metrics.jsonl) steps of 600"
wait_until "an empty cluster" nobody_left
finish
