#!/usr/bin/env bash
# Ranks bound to cores: what is printed is what the kernel says of their processes.
source "$(dirname "$0")/launcher.sh"
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
[ "${#cpus[@]}" -ge 2 ] || { echo "SKIPPED: two cores are needed"; exit 77; }
first=${cpus[0]} second=${cpus[1]}

allowed_of() {  # allowed_of <rank>: from the log of the run that goes on
  local pid
  pid=$(sed -n "s/.*rank $1 is pid \([0-9]*\).*/\1/p" run/logs/dslaunch.log | head -n 1)
  sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$pid/status"
}

export FAKE_RANK="steps=100000 step_ms=20"
start --num-ranks 2 --bind_cores_to_rank --report-bindings
one=$(allowed_of 0) other=$(allowed_of 1)
[ -n "$one" ] && [ "$one" != "$other" ] || fail "both ranks run on cores '$one'"
expect_text out "binding: this machine slot 0: cores $one (NUMA node"
expect_text out "binding: this machine slot 1: cores $other (NUMA node"
kill -INT "$launcher"
expect_end 75

start --num-ranks 1 --bind-core-list "$second"
[ "$(allowed_of 0)" = "$second" ] || fail "rank 0 runs on cores '$(allowed_of 0)', not on $second"
expect_text out "1 rank, 1 thread each"
kill -INT "$launcher"
expect_end 75

# Without binding a rank runs where dslaunch may, and no rank leaves the mask that dslaunch was given.
launch_in_mask() { rm -rf run; taskset -c "$first" dslaunch train.json --run-dir run "$@" > out 2> err & launcher=$!; }
launch_in_mask --num-ranks 2
wait_until "the first step" test -s run/metrics.jsonl || finish
[ "$(allowed_of 1)" = "$first" ] || fail "rank 1 runs on cores '$(allowed_of 1)', the mask is $first"
kill -INT "$launcher"
expect_end 75
launch_in_mask --num-ranks 2 --bind-cores-to-rank
expect_end 2
expect_text err "this machine: 1 cores may be used and 2 ranks want one each"
launch_in_mask --num-ranks 1 --bind-core-list "$second"
expect_end 2

export FAKE_RANK="steps=3"
expect 2 train.json --bind-core-list 3-1
expect_text err "is no ascending range"
DSLAUNCH_RANKD=$bin/rankd expect 0 train.json --num-ranks 2 --bind-cores-to-rank --dry-run data.train='["train.json"]'
grep -qE "rank 1 +this machine, [0-9]+ threads?, cores .* \(NUMA node" out || fail "the dry run does not show the cores"
finish
