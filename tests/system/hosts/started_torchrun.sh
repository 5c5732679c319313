#!/usr/bin/env bash
# Started by torchrun, accelerate or DeepSpeed's launcher once for each rank, or once in each pod: what they start, and
# the variables that they set, without them.
source "$(dirname "$0")/../launcher.sh"

address=127.0.0.1:$$  # names the job; nobody listens there
# as_torchrun <ranks> <ranks of each node> <words...>: one dslaunch for each; the code of rank 0 in $code.
as_torchrun() {
  local ranks=$1 each=$2 rank pids=()
  shift 2
  for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$((rank % each)) LOCAL_WORLD_SIZE=$each GROUP_RANK=$((rank / each)) \
      TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 MASTER_ADDR=${address%:*} MASTER_PORT=${address#*:} \
      timeout 60 dslaunch train.json "$@" > "out$rank" 2> "err$rank" &
    pids+=($!)
  done
  codes=
  for rank in "${!pids[@]}"; do
    wait "${pids[$rank]}"
    codes="$codes $?"
  done
}
expect_codes() {  # expect_codes <code> <what>: of all of them
  local code
  cat out? > out
  cat err? > err
  for code in $codes; do
    [ "$code" -eq "$1" ] || fail "$2: they ended with$codes, expected $1 each"
  done
  ls -d .dslaunch-rendezvous-* > /dev/null 2>&1 && fail "$2: a rendezvous file is left"
}

export FAKE_RANK="steps=3"
as_torchrun 4 4 --run-dir run
expect_codes 0 "torchrun"
expect_text out "run run: 4 ranks"
expect_text out "torchrun started 4 dslaunch on this host"
[ "$(grep -c "^run run" out)" -eq 1 ] || fail "more than one of them trains"

# Without --run-dir all would have made a directory of their own.
as_torchrun 2 2
expect_codes 0 "torchrun without a run directory"
[ "$(find runs -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 1 ] || fail "runs: $(ls runs)"

# Two nodes, which here are one machine: they meet in the folder that they share.
as_torchrun 4 2 --run-dir run-two
expect_codes 0 "two torchrun"
expect_text out "torchrun started 4 dslaunch on 2 hosts"
expect_text run-two/logs/dslaunch.log "rank 3 joined"

# A failed rank ends all of them with its code; options that choose hosts come too late.
FAKE_RANK="steps=9 rank=1 at=2 do=data" as_torchrun 2 2 --run-dir run-bad --max-restarts 0
expect_codes 65 "a rank's data error"
as_torchrun 2 2 --hostfile hosts
expect_codes 2 "a hostfile under torchrun"
expect_text err "--hostfile: torchrun has chosen the hosts"
as_torchrun 2 2 communication.backend=mpi --run-dir run-mpi
for code in $codes; do [ "$code" -eq 78 ] || fail "MPI under torchrun: they ended with$codes"; done

# DeepSpeed's launcher has other names for some.
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_SIZE=2 CROSS_RANK=0 CROSS_SIZE=1 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=29500 timeout 60 dslaunch --local_rank=$rank train.json --run-dir run-ds > "out$rank" 2> "err$rank" &
done
wait
cat out? > out
expect_text out "deepspeed started 2 dslaunch on this host"
expect_text out "run run-ds: 2 ranks"
expect_text out "note: --local-rank: passed over"
expect 2 --local_rank=1 train.json
expect_text err "--local-rank 1: this is one of several"

# A pod has its number and how many there are, and nothing else: not a whole job in each of them.
pod() { RANK=$1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456 "${@:2}"; }
pod 1 expect 2 train.json --run-dir run-pod
expect_text err "RANK=1 and WORLD_SIZE=2 say that this is one of several"
pod 0 expect 2 train.json --dry-run
[ -e run-pod ] && fail "a run directory was made"
pod 1 expect 0 train.json --run-dir run-pod --launcher local --num-ranks 1
expect_text out "run run-pod: 1 rank,"
# The words of that message: they join.
for rank in 0 1; do
  pod $rank env LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 timeout 60 dslaunch train.json --run-dir run-pods > "out$rank" 2> "err$rank" &
done
wait
cat out? > out
expect_text out "run run-pods: 2 ranks"
expect_text out "torchrun started 2 dslaunch on 2 hosts"

# What a shell has left from other days keeps nobody from training.
WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 MASTER_ADDR=node-1 MASTER_PORT=29500 expect 0 train.json --run-dir run-shell --num-ranks 2
MASTER_ADDR=node-1 WORLD_SIZE=8 expect 0 train.json --run-dir run-shell2 --num-ranks 2
JOB_COMPLETION_INDEX=1 expect 0 train.json --run-dir run-index --num-ranks 2
expect_text out "note: JOB_COMPLETION_INDEX=1: this pod trains by itself"
finish
