#!/usr/bin/env bash
# Steps of two hosts with two ranks each whose link bears so many Gb/s: what compression of traffic gains there, and the
# share of it that the bytes promise. Hosts are network namespaces of this machine, their links shaped by tbf; bytes are
# what the links' own counters say, headers and all.
#
# usage: slow_link.sh BIN_DIR [ROUNDS [GBIT [WIDTH [LAYERS [STEPS]]]]]     as root
#
# In each round, in turn: Adam at stage 0 and OneBitAdam after its warm-up; stage 3 in bf16 and the same with ZeRO++ (hpZ,
# qwZ, qgZ), both with overlap_comm; each over the shaped link, and over one that is not. Printed are medians over the
# rounds, per step: seconds over either link, processor seconds of all ranks over the shaped one, bytes of the busier
# link and the seconds that these take on it. Of each pair follow the quotients of steps and of bytes, and the one over
# the other (goal: at least 0.8); then the same for communication alone, which is what a step over the shaped link takes
# longer than one over the other.
source "$(dirname "$0")/../system/hosts/hosts.sh"
unset DSLAUNCH_RANKD
rounds=${2:-5} gbit=${3:-1} width=${4:-640} layers=${5:-8} steps=${6:-6}
kept_back=2  # steps before time is taken: pages are touched, Adam's warm-up ends

shape() {  # shape <shaped|free>
  local name
  for name in "${nodes[@]}"; do
    if [ "$1" = shaped ]; then
      ip netns exec "$name" tc qdisc replace dev eth0 root tbf rate "${gbit}gbit" burst 256kb latency 100ms || return 1
    else
      ip netns exec "$name" tc qdisc del dev eth0 root 2> /dev/null
    fi
  done
}
shape shaped || skip "no shaped links here"
seq 40000 > corpus.txt
cat > train.json <<JSON
{"model": {"family": "gpt2", "n_layer": $layers, "n_head": 8, "n_embd": $width, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 8},
 "train": {"steps": $steps, "save_every": 1000000, "log_every": 1}, "train_batch_size": 4, "steps_per_print": 1000,
 "gradient_clipping": 0, "optimizer": {"type": "Adam", "params": {"lr": 1e-4}}}
JSON
third=(+zero_optimization.stage=3 +bf16.enabled=true +zero_optimization.stage3_param_persistence_threshold=0
  +zero_optimization.overlap_comm=true)
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
# Hundredths of a second that processors have worked for the ranks.
worked() {
  local pid
  for pid in $(on_hosts /rankd); do cat "/proc/$pid/stat" 2> /dev/null; done | awk '{ sum += $14 + $15 } END { print sum + 0 }'
}
# await_steps <count> <variant>: looks often, and starts no processes, which the ranks would feel.
exec {never}<> <(:)
await_steps() {
  local lines=() i
  for ((i = 0; i < 15000; i++)); do
    [ -e run/metrics.jsonl ] && mapfile -t lines < run/metrics.jsonl
    [ "${#lines[@]}" -ge "$1" ] && return
    read -rt 0.02 -u "$never"
  done
  fail "step $1 of $2 did not come"
  finish
}

measure() {  # measure <variant> <link>: a line "variant link seconds bytes worked", per step, into figures
  local before after began ended
  rm -rf run
  # shellcheck disable=SC2086
  ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" --num-threads 1 ${words[$1]} > out 2> err &
  launcher=$!
  await_steps $kept_back "$1"
  before=$(sent) began=$(worked)
  await_steps $((steps - 1)) "$1"  # the ranks are there still
  after=$(sent) ended=$(worked)
  expect_end 0
  tail -n $((steps - kept_back)) run/metrics.jsonl |
    awk -v name="$1 $2" -v n=$((steps - 1 - kept_back)) -v tokens=32 -v sent=$((after - before)) -v worked=$((ended - began)) '
      { sub(/.*"tokens_per_s": /, ""); sub(/[,}].*/, ""); seconds += tokens / $0 }
      END { printf "%s %.4f %.0f %.3f\n", name, seconds / NR, sent / n, worked / n / 100 }' | tee -a figures
}

for ((round = 0; round < rounds; round++)); do
  for variant in adam onebit stage3 zeropp; do
    for link in shaped free; do shape $link && measure $variant $link; done
  done
done
GBIT=$gbit python3 - <<'PYTHON'
import collections, os, statistics
rate = float(os.environ["GBIT"]) * 1e9 / 8
seen = collections.defaultdict(list)
for line in open("figures"):
    name, link, *figures = line.split()
    for what, figure in zip(("seconds", "sent", "worked"), figures):
        seen[name, link, what].append(float(figure))
middle = lambda *key: statistics.median(seen[key])
variants = "adam", "onebit", "stage3", "zeropp"
print("per step   shaped s  (least to most)     free s   processors s   link MiB   link s")
for name in variants:
    took, moved = seen[name, "shaped", "seconds"], middle(name, "shaped", "sent")
    print(f"{name:9} {statistics.median(took):9.3f}  ({min(took):.3f} to {max(took):.3f})  {middle(name, 'free', 'seconds'):9.3f}"
          f"  {middle(name, 'shaped', 'worked'):13.2f}  {moved / 2**20:9.2f}  {moved / rate:7.3f}")
for plain, small in ("adam", "onebit"), ("stage3", "zeropp"):
    quotient = lambda what: statistics.median(
        a / b for a, b in zip(seen[plain, "shaped", what], seen[small, "shaped", what]))
    faster, fewer = quotient("seconds"), quotient("sent")
    longer = {name: middle(name, "shaped", "seconds") - middle(name, "free", "seconds") for name in (plain, small)}
    print(f"{small}: {fewer:.2f} times fewer bytes; steps {faster:.2f} times as fast: {faster / fewer:.2f} (goal 0.80); "
          f"communication alone {longer[plain]:.3f} and {longer[small]:.3f} s", end="")
    alone = longer[plain] / longer[small] if longer[small] > 0 else float("inf")
    print(f": {alone:.2f} times: {alone / fewer:.2f}")
PYTHON
finish
