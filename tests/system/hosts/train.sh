#!/usr/bin/env bash
# Real training over two hosts, by ssh and by mpirun: the same weights, to the bit, as four ranks here; also
# when a rank is killed on the way. Ranks listen for each other only until they have met.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=300 train.save_every=50 zero_optimization.stage=2)

timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
same_weights() {
  cmp local/final/model.safetensors run/final/model.safetensors || fail "$1: other weights"
}
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}"
same_weights ssh
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}" zero_optimization.stage=3
same_weights "ssh, stage 3"
sed 's/$/\r/' corpus.txt > windows.txt
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 train.steps=2 'data.train=["windows.txt"]'
expect_text out "data.train: $PWD/windows.txt has lines that end in CR LF"
if command -v mpirun > /dev/null; then
  run_on_hosts 0 "${by_mpi[@]}" --num-threads 1 "${same[@]}"
  same_weights mpirun
fi
wait_until "an empty cluster" nobody_left

start_on_hosts "${by_ssh[@]}" --num-threads 1 train.steps=1000000
for name in "${nodes[@]}"; do
  listening=$(ip netns exec "$name" ss -Hltn | grep -v ':22 ')
  [ -z "$listening" ] || fail "somebody listens on $name: $listening"
done
connections=$(ip netns exec "${nodes[0]}" ss -Htn state established | grep -c " ${addresses[1]}:")
[ "$connections" -eq 4 ] || fail "$connections connections between two hosts of two ranks, expected 4"
kill -INT "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left

start_on_hosts "${by_ssh[@]}" --num-threads 1 "${same[@]}"
kill -KILL "$(processes_of "${nodes[1]}" rankd | tail -1)"
expect_end 0
expect_text out "restart 1 of"
same_weights "after a restart"
wait_until "an empty cluster" nobody_left
finish
