#!/usr/bin/env bash
# Started by srun, once for each rank: srun -n 4 dslaunch train.json, on one node and on two.
source "$(dirname "$0")/slurm_nodes.sh"

nobody() {
  local pid
  for pid in $(pgrep -x dslaunch; pgrep -x fake_rank); do
    [ "$(readlink "/proc/$pid/cwd" 2> /dev/null)" = "$scratch" ] && return 1
  done
  return 0
}
expect_nobody() {
  local i
  for ((i = 0; i < 150; i++)); do nobody && break; sleep 0.1; done
  nobody || fail "after $1: processes are left"
  ls -d .dslaunch-rendezvous-* > /dev/null 2>&1 && fail "after $1: a rendezvous file is left"
}
run_many() {  # run_many <code> <srun's words> -- <dslaunch's words>
  local want=$1 got words=()
  shift
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  rm -rf run
  timeout 100 srun -Q "${words[@]}" dslaunch train.json --run-dir run "$@" > out 2> err < /dev/null
  got=$?
  [ "$got" -eq "$want" ] || fail "srun ${words[*]} dslaunch $*: exit code $got, expected $want"
}

export FAKE_RANK="steps=3"
run_many 0 -N 1 -n 4 -t 10 --
expect_text out "run run: 4 ranks"
expect_text out "srun started 4 dslaunch on this host"
expect_text out "(Slurm ends the job at "
expect_nobody "srun -n 4"

run_many 0 -N 2 --ntasks-per-node=2 --
expect_text out "run run: 4 ranks"
expect_text out "srun started 4 dslaunch on 2 hosts"
expect_text run/logs/dslaunch.log "on vn2"
[ "$(grep -c "^run run" out)" -eq 1 ] || fail "more than one of them speaks"
expect_nobody "srun -N 2"

# Unequal hosts, exit codes of ranks and of the configuration.
run_many 0 -N 2 -n 4 --distribution=arbitrary -w vn1,vn1,vn1,vn2 -- 2> /dev/null
FAKE_RANK="steps=9 rank=3 at=2 do=data" run_many 65 -N 2 --ntasks-per-node=2 -- --max-restarts 0
expect_text err "token 50000 at position 12"
run_many 78 -N 2 --ntasks-per-node=2 -- train_batch_size=3
run_many 2 -N 2 -n 2 -- --launcher ssh
expect_text err "srun has chosen the hosts"
expect_nobody "errors"

# A step of one task is no job of many, whatever it inherits.
FAKE_RANK="steps=3" timeout 60 srun -Q -n 1 dslaunch train.json --run-dir run-one --launcher local --num-ranks 2 > out 2> err || fail "srun -n 1: exit code $?"
expect_text out "run run-one: 2 ranks"

# Slurm's signals go to all tasks; the first one saves, and all end with its code.
FAKE_RANK="steps=100000 step_ms=20" srun -Q -N 2 --ntasks-per-node=2 dslaunch train.json --run-dir run-usr1 > out 2> err < /dev/null &
step=$!
if wait_until "the first step" test -s run-usr1/metrics.jsonl; then
  scancel --signal=USR1 "$(squeue -h -o %i).0" 2> /dev/null
  wait $step
  [ $? -eq 75 ] || fail "after USR1: exit code is not 75"
  expect_text out "committed tag="
fi
expect_nobody "USR1"

# scancel and the loss of one task leave nothing.
for how in scancel other srun; do
  FAKE_RANK="steps=100000 step_ms=20 ignore_stop=1" srun -Q -N 2 --ntasks-per-node=2 dslaunch train.json --run-dir "run-$how" --max-restarts 0 > out 2> err < /dev/null &
  step=$!
  wait_until "the first step" test -s "run-$how/metrics.jsonl" || break
  case $how in
    scancel) scancel "$(squeue -h -o %i)" ;;
    srun) kill -KILL $step ;;
    other)  # the agent of the second node
      for pid in $(pgrep -x dslaunch); do
        { tr '\0' '\n' < "/proc/$pid/environ"; } 2> /dev/null | grep -qx SLURM_PROCID=2 && kill -KILL "$pid"
      done ;;
  esac
  wait $step 2> /dev/null
  expect_nobody "$how"
done
finish
