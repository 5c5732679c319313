#!/usr/bin/env bash
# Weights and state of eight times the memory that a job may have train in a cgroup of that limit, launcher and all, from
# the first weights to the trained model, which has the bits of a run with room for everything; and the memory of the
# device is what the plan says.
source "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
limit=$((300 << 20))
group=/sys/fs/cgroup/memory/dslaunch-$$ limit_file=memory.limit_in_bytes
[ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/dslaunch-$$ limit_file=memory.max
if ! mkdir "$group" 2> /dev/null || ! echo $limit > "$group/$limit_file" 2> /dev/null; then
  rmdir "$group" 2> /dev/null
  echo "SKIPPED: no cgroup with a limit on memory can be made here"
  exit 77
fi
remove_group() {
  clean_up
  rmdir "$group" 2> /dev/null
}
trap remove_group EXIT

mkdir swap
seq 20000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 18, "n_head": 12, "n_embd": 768, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16}, "train": {"steps": 2},
 "train_batch_size": 1, "optimizer": {"type": "AdamW"},
 "zero_optimization": {"stage": 3, "sub_group_size": 500000, "stage3_max_live_parameters": 8000000}}
JSON
zero=zero_optimization
offloaded=($zero.offload_param.device=nvme $zero.offload_param.nvme_path=swap $zero.offload_param.max_in_cpu=0
  $zero.offload_param.buffer_count=2 $zero.offload_optimizer.device=nvme $zero.offload_optimizer.nvme_path=swap
  $zero.offload_optimizer.pin_memory=false)
one=(train.json --num-ranks 1 --num-threads 1)

figure() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" plan.json | head -1; }
dslaunch plan "${one[@]:0:3}" --json "${offloaded[@]}" > plan.json 2> err || fail "no plan"
[ "$(figure nvme_bytes)" -ge $((8 * limit)) ] || fail "weights and state are less than eight times the limit"

(echo "$BASHPID" > "$group/cgroup.procs" &&
  exec timeout 200 dslaunch "${one[@]}" --run-dir small "${offloaded[@]}" > out 2> err) ||
  fail "it does not train within $limit bytes"
# "mem 83.7 MiB": of the device, where a step is most.
told=$(sed -n 's/^step 2.* mem \([0-9.]*\) MiB.*/\1/p' out)
awk -v told="${told:-0}" -v plan="$(figure device_bytes_peak)" \
  'BEGIN { ratio = told * 1048576 / plan; exit !(ratio > 0.98 && ratio < 1.02) }' ||
  fail "$told MiB on the device, planned were $(figure device_bytes_peak) bytes"
[ -z "$(ls swap)" ] || fail "left in swap: $(ls swap)"

expect 0 "${one[@]}" --run-dir large
cmp small/final/model.safetensors large/final/model.safetensors || fail "other weights"
finish
