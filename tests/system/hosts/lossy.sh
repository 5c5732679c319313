#!/usr/bin/env bash
# A slow link that drops packets costs time, nothing else: no host is taken for lost, the weights are the same.
source "$(dirname "$0")/hosts.sh"
command -v tc > /dev/null || skip "tc is missing"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=30 train.save_every=10 zero_optimization.stage=2)

timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
# What does not fit into the bucket within 5 ms is dropped.
for name in "${nodes[@]}"; do
  ip netns exec "$name" tc qdisc add dev eth0 root tbf rate 8mbit burst 4kb latency 5ms 2> /dev/null ||
    skip "no token buckets here"
done
run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${same[@]}" --max-restarts 0
cmp local/final/model.safetensors run/final/model.safetensors || fail "other weights"
dropped=0
for name in "${nodes[@]}"; do
  sent=$(ip netns exec "$name" tc -s qdisc show dev eth0)
  here_dropped=$(sed -n 's/.*dropped \([0-9]*\).*/\1/p' <<< "$sent")
  dropped=$((dropped + here_dropped))
done
echo "$dropped packets were dropped; $(sed -n 's/.* pkt .*/&/p' <<< "$sent")"
[ "$dropped" -gt 20 ] || fail "only $dropped packets were dropped"
wait_until "an empty cluster" nobody_left
finish
