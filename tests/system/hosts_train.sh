#!/usr/bin/env bash
# Real training over two hosts, by ssh and by mpirun: the same weights, to the bit, as four ranks here.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=4 zero_optimization.stage=2)

timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}"
cmp local/final/model.safetensors run/final/model.safetensors || fail "ssh: other weights"
if command -v mpirun > /dev/null; then
  run_on_hosts 0 "${by_mpi[@]}" --num-threads 1 "${same[@]}"
  cmp local/final/model.safetensors run/final/model.safetensors || fail "mpirun: other weights"
fi
wait_until "an empty cluster" nobody_left
finish
