#!/usr/bin/env bash
# communication.backend over two hosts: TCP and MPI train to the bits of shared memory, also where mpirun deals
# ranks out by turns.
source "$(dirname "$0")/hosts.sh"
command -v mpirun > /dev/null || skip "mpirun is missing"
dslaunch --version | grep -q "MPI yes" || skip "this build has no MPI"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=100 zero_optimization.stage=2 --num-threads 1)

timeout 100 dslaunch train.json --num-ranks 4 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
run_many() {  # run_many <mpirun's words> -- <dslaunch's words>
  local words=()
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  rm -rf run
  timeout 100 "${many[@]}" --mca btl self,tcp --mca btl_tcp_if_include "$net.0/24" "${words[@]}" \
    dslaunch train.json --run-dir run "${same[@]}" "$@" > out 2> err
  local got=$?
  [ "$got" -eq 0 ] || fail "mpirun ${words[*]} dslaunch $*: exit code $got"
  cmp local/final/model.safetensors run/final/model.safetensors || fail "mpirun ${words[*]} dslaunch $*: other weights"
  wait_until "an empty cluster" nobody_left
}
run_many --
expect_text run/logs/rank-3.log "collectives over tcp"
run_many -- communication.backend=mpi
expect_text out "mpirun started 4 dslaunch on 2 hosts"
for rank in 0 1 2 3; do expect_text run/logs/rank-$rank.log "collectives over mpi"; done
run_many --map-by node -- communication.backend=mpi
run_on_hosts 78 "${by_mpi[@]}" communication.backend=mpi
expect_text err "mpirun -n RANKS dslaunch"
run_on_hosts 78 "${by_ssh[@]}" communication.backend=shm
expect_text err "shm is memory of one host, and this job has 2"
finish
