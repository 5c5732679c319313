#!/usr/bin/env bash
# Under Slurm: a controller and two virtual nodes on this machine, hosts and slots from the allocation.
source "$(dirname "$0")/slurm_nodes.sh"

allocate() { timeout 120 salloc -Q --nodes=2 --ntasks-per-node=2 "$@"; }

export FAKE_RANK="steps=3"
allocate dslaunch train.json --run-dir run --env FAKE_RANK > out 2> err || fail "srun: exit code $?"
expect_text out "run run: 4 ranks"
expect_text run/logs/dslaunch.log "rank 3 joined"
expect_text run/logs/dslaunch.log "on vn2"

# One task per node and ranks by --num-gpus; a job script that hands the exit code on.
FAKE_RANK="steps=9 rank=3 at=2 do=data" timeout 120 salloc -Q --nodes=2 --ntasks-per-node=1 \
  dslaunch train.json --run-dir run2 --num-gpus 2 --max-restarts 0 --env FAKE_RANK > out 2> err
[ $? -eq 65 ] || fail "the exit code of a rank's data error got lost"
expect_text err "token 50000 at position 12"

# A cancelled job saves and leaves nothing.
FAKE_RANK="steps=100000 step_ms=20" salloc -Q --nodes=2 --ntasks-per-node=2 \
  dslaunch train.json --run-dir run3 --env FAKE_RANK > out 2> err &
allocation=$!
wait_until "the first step" test -s run3/metrics.jsonl || finish
scancel --signal=TERM --full "$(squeue -h -o %i)" 2> /dev/null
kill -TERM "$(pgrep -P $allocation -x dslaunch)" 2> /dev/null
wait $allocation
[ $? -eq 75 ] || fail "after TERM: exit code is not 75"
expect_text out "committed tag="
nobody() { ! pgrep -f "$bin/fake_rank --from-stdin" > /dev/null && ! pgrep -f "$bin/dslaunch agent" > /dev/null; }
for ((i = 0; i < 150; i++)); do nobody && break; sleep 0.1; done
nobody || fail "processes are left after the job"
finish
