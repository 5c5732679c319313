#!/usr/bin/env bash
# Fault 8: a disk that is too small for what a run swaps ends the run before its first step, with what is needed and what
# is free. What was committed stays, and training goes on from it where there is room, to the weights of a run that was left
# alone; what a rank that was killed beside the one that failed has left there goes first, and nothing is left at the end.
source "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
if ! unshare -rm true 2> /dev/null; then
  echo "SKIPPED: no user namespaces, so no small disk to fill"
  exit 77
fi
seq 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16}, "train": {"steps": 4, "save_every": 2},
 "train_batch_size": 4, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3}}
JSON
zero=zero_optimization
state=($zero.offload_optimizer.device=nvme $zero.offload_optimizer.nvme_path=swap)
weights=($zero.offload_param.device=nvme $zero.offload_param.nvme_path=swap $zero.offload_param.max_in_cpu=0
  $zero.stage3_param_persistence_threshold=0)
two=(train.json --num-ranks 2 --num-threads 1)

expect 0 "${two[@]}" --run-dir alone
mkdir swap
for what in state weights; do
  declare -n words=$what
  rm -rf run
  expect 0 "${two[@]}" --run-dir run "${words[@]}" train.steps=2
  # A rank that is killed while it notes its generation leaves that file's ".tmp", which the next one replaces.
  tags=$(ls run/checkpoints --ignore=epoch.tmp)
  rows=$(wc -l < run/metrics.jsonl)
  # Room for the file of one rank: as it is planned, and a page for its header.
  dslaunch plan "${two[@]}" --json "${words[@]}" > plan.json 2> err || fail "no plan"
  one=$(sed -n 's/.*"nvme_bytes": \([0-9]*\).*/\1/p' plan.json | head -1)
  export size=$((one * 3 / 2))
  [ "$one" -gt 100000 ] || fail "$what: $one bytes are swapped, which is no test"
  cat > small.sh <<'SCRIPT'
mount -t tmpfs -o size=$size none swap || exit 1
dslaunch "$@"
code=$?
ls run/checkpoints --ignore=epoch.tmp > tags
wc -l < run/metrics.jsonl > rows
mount -o remount,size=64m swap || exit 1
dslaunch "$@" > again 2>&1 || echo "ends with $?, expected 0" > left
find swap -mindepth 1 >> left
exit $code
SCRIPT
  rm -f left
  timeout 120 unshare -rm bash small.sh "${two[@]}" --run-dir run "${words[@]}" > out 2> err
  got=$?
  [ $got -eq 74 ] || fail "$what on a disk that is too small: exit code $got, expected 74"
  for text in "needs " "are free in " "nvme_path" "at step 0"; do expect_text err "$text"; done
  [ -s left ] && fail "$what, with room again: $(cat left again)"
  [ "$(cat tags)" = "$tags" ] || fail "$what: other tags: $(echo $(cat tags)) instead of $(echo $tags)"
  [ "$(cat rows)" -eq "$rows" ] || fail "$what: a step was made"
  cmp run/final/model.safetensors alone/final/model.safetensors || fail "$what: other weights"
done
finish
