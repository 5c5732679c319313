#!/usr/bin/env bash
# qgZ over hosts: gradients are summed as codes on each host first, and codes of these sums travel between them.
# The weights are, to the bit, those of four ranks here of which two each are said to be near. Hosts that have
# different numbers of ranks are refused.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=60 train.save_every=1000 +zero_optimization.stage=3
  +zero_optimization.stage3_param_persistence_threshold=0 +zero_optimization.zero_quantized_gradients=true)

# local_run <name> <words...>: four ranks of this machine.
local_run() {
  timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir "$@" "${same[@]}" > out 2> err ||
    fail "local training, $1: exit code $?"
}
local_run pairs +zero_optimization.zero_hpz_partition_size=2
local_run together
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}"
same_weights() {
  cmp "$1/final/model.safetensors" run/final/model.safetensors || fail "$1: other weights than over two hosts"
}
same_weights pairs
cmp -s together/final/model.safetensors run/final/model.safetensors && fail "hosts make no difference"
local_run wide +zero_optimization.zero_quantized_weights=true +zero_optimization.zero_hpz_partition_size=2
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}" +zero_optimization.zero_quantized_weights=true
same_weights wide

# Two ranks and one: no group of near ranks divides all.
printf '%s slots=2\n%s slots=1\n' "${addresses[@]}" > hosts
run_on_hosts 78 "${by_ssh[@]}" --num-threads 1 "${same[@]}" train_batch_size=6
expect_text err "zero_optimization.zero_quantized_gradients: gradients are summed on each host first"
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}" train_batch_size=6 \
  +zero_optimization.zero_hpz_partition_size=3

# Two, one and one: each divides four, and only all ranks together see that they differ.
ip -n "${nodes[1]}" addr add $net.4/24 dev eth0
sed "s/^ListenAddress .*/ListenAddress $net.4/" ssh/sshd1.conf > ssh/sshd2.conf
echo "$net.4 $(cut -d' ' -f1,2 ssh/host1.pub)" >> ssh/known_hosts
ip netns exec "${nodes[1]}" /usr/sbin/sshd -D -e -f "$scratch/ssh/sshd2.conf" 2> ssh/sshd2.log &
wait_until "sshd on $net.4" answers "$net.4" || finish
echo "$net.4 slots=1" >> hosts
run_on_hosts 78 "${by_ssh[@]}" --num-threads 1 "${same[@]}"
expect_text err "of 4 are on this one); use as many on each"
wait_until "an empty cluster" nobody_left
finish
