#!/usr/bin/env bash
# Steps of two hosts with two ranks each whose link bears so many Gb/s: what compression of traffic gains there, and the
# share of it that the bytes promise. Hosts are network namespaces of this machine, their links shaped by tbf; bytes are
# what the links' own counters say, headers and all.
#
# usage: slow_link.sh BIN_DIR [ROUNDS [GBIT [WIDTH [LAYERS [STEPS]]]]]     as root
#
# In each round, in turn: Adam at stage 0 and OneBitAdam after its warm-up; stage 3 in bf16 and the same with ZeRO++ (hpZ,
# qwZ, qgZ). Printed are the medians over the rounds of seconds and of bytes per step of the busier link, of each pair the
# quotients of both, and the one over the other (goal: at least 0.8).
source "$(dirname "$0")/../system/hosts/hosts.sh"
unset DSLAUNCH_RANKD
rounds=${2:-5} gbit=${3:-1} width=${4:-640} layers=${5:-8} steps=${6:-6}
kept_back=2  # steps before time is taken: pages are touched, Adam's warm-up ends

for name in "${nodes[@]}"; do
  ip netns exec "$name" tc qdisc add dev eth0 root tbf rate "${gbit}gbit" burst 256kb latency 100ms ||
    skip "no shaped links here"
done
seq 40000 > corpus.txt
cat > train.json <<JSON
{"model": {"family": "gpt2", "n_layer": $layers, "n_head": 8, "n_embd": $width, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 8},
 "train": {"steps": $steps, "save_every": 1000000, "log_every": 1}, "train_batch_size": 4, "steps_per_print": 1000,
 "gradient_clipping": 0, "optimizer": {"type": "Adam", "params": {"lr": 1e-4}}}
JSON
third=(+zero_optimization.stage=3 +bf16.enabled=true +zero_optimization.stage3_param_persistence_threshold=0
  +zero_optimization.stage3_prefetch_bucket_size=4000000)
declare -A words=(
  [adam]="+zero_optimization.stage=0"
  [onebit]="+zero_optimization.stage=0 optimizer.type=OneBitAdam +optimizer.params.freeze_step=1"
  [stage3]="${third[*]}"
  [zeropp]="${third[*]} +zero_optimization.zero_hpz_partition_size=2 +zero_optimization.zero_quantized_weights=true
    +zero_optimization.zero_quantized_gradients=true")

# The bytes that the busier of the two links has sent.
sent() {
  local name bytes most=0
  for name in "${nodes[@]}"; do
    bytes=$(ip netns exec "$name" cat /sys/class/net/eth0/statistics/tx_bytes)
    [ "$bytes" -gt "$most" ] && most=$bytes
  done
  echo "$most"
}
has_steps() { [ "$(wc -l < run/metrics.jsonl 2> /dev/null || echo 0)" -ge "$1" ]; }

measure() {  # measure <variant>: a line "variant seconds bytes", per step, into figures
  local from to before after
  rm -rf run
  # shellcheck disable=SC2086
  ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" --num-threads 1 ${words[$1]} > out 2> err &
  launcher=$!
  wait_at_most 300 "the first steps of $1" has_steps $kept_back || finish
  from=$EPOCHREALTIME before=$(sent)
  wait_at_most 300 "the last steps of $1" has_steps "$steps" || finish
  to=$EPOCHREALTIME after=$(sent)
  expect_end 0
  echo "$1 $from $to $before $after" |
    awk -v n=$((steps - kept_back)) '{ printf "%s %.4f %.0f\n", $1, ($3 - $2) / n, ($5 - $4) / n }' | tee -a figures
}

for ((round = 0; round < rounds; round++)); do
  for variant in adam onebit stage3 zeropp; do measure $variant; done
done
python3 - <<'PYTHON'
import collections, statistics
seconds, sent = collections.defaultdict(list), collections.defaultdict(list)
for line in open("figures"):
    name, took, moved = line.split()
    seconds[name].append(float(took))
    sent[name].append(float(moved))
for name in seconds:
    print(f"{name:8} {statistics.median(seconds[name]):8.3f} s  ({min(seconds[name]):.3f} to {max(seconds[name]):.3f})"
          f"  {statistics.median(sent[name]) / 2**20:9.2f} MiB per step")
for plain, small in ("adam", "onebit"), ("stage3", "zeropp"):
    faster = statistics.median(a / b for a, b in zip(seconds[plain], seconds[small]))
    fewer = statistics.median(a / b for a, b in zip(sent[plain], sent[small]))
    print(f"{small}: {faster:.2f} times as fast with {fewer:.2f} times fewer bytes: {faster / fewer:.2f} (goal 0.80)")
PYTHON
finish
