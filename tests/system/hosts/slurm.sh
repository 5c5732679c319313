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

# GPUs of the job are counted in many ways, and each step of an agent has those of its node, or none.
for count in --gres=gpu:2 --gpus=4 --gpus-per-node=2 --gpus-per-task=1 "--gpus=4 --ntasks-per-gpu=1"; do
  echo "$count"
  tasks=--ntasks-per-node=2
  [[ $count == *per-gpu* ]] && tasks=
  rm -rf run4
  timeout 120 salloc -Q --nodes=2 $tasks $count dslaunch train.json --run-dir run4 --env FAKE_RANK > out 2> err ||
    fail "$count: exit code $?"
  expect_text out "run run4: 4 ranks"
  timeout 120 salloc -Q --nodes=2 $tasks $count dslaunch train.json --dry-run --device cuda > out 2> err
  expect_text out "rank 3   vn2 slot 1"
  # The command of the agent, with another program in the place of dslaunch.
  words=$(sed -n 's/^agent *\(srun .*nodelist=vn2 .*\) [^ ]*dslaunch agent$/\1/p' out)
  [ -n "$words" ] || fail "$count: no agent"
  timeout 120 salloc -Q --nodes=2 $tasks $count \
    env -u SLURM_GPUS -u SLURM_GPUS_PER_TASK -u SLURM_NTASKS_PER_GPU -u SLURM_TRES_PER_TASK $words \
    /usr/bin/env > out 2> err
  expect_text out "SLURM_GPUS_ON_NODE=2"
done
# One task on each node.
timeout 120 salloc -Q --nodes=2 --ntasks-per-node=1 --gpus-per-node=2 dslaunch train.json --dry-run --device cuda > out 2> err
expect_text out "rank 3   vn2 slot 1"
expect_text out "Slurm gave each node 2 GPUs: one rank for each"
timeout 120 salloc -Q --nodes=2 --ntasks-per-node=1 --gres=gpu:2 dslaunch train.json --dry-run --device cuda > out 2> err
expect_text out "Slurm does not say here how many GPUs its nodes have"
cat > job.sh <<'JOB'
#!/bin/bash
exec dslaunch train.json --dry-run --device cuda
JOB
timeout 120 sbatch -Q --wait --nodes=2 --ntasks-per-node=1 --gres=gpu:2 -o out -e err job.sh
expect_text out "rank 3   vn2 slot 1"

# A cancelled job saves and leaves nothing.
: > out
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
