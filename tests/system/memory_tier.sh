# Ranks that are killed with no checkpoint on any disk: the run goes on from what memory holds, at most one
# step back, and ends with equal weights.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD

seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 60, "save_in_memory_every": 1}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON

# same <run>: weights and metrics are those of the undisturbed run; only the pace, the time and who
# made a step may differ.
same() {
  local run
  cmp undisturbed/final/model.safetensors "$1/final/model.safetensors" || fail "$1: other weights"
  for run in undisturbed "$1"; do
    sed -E 's/, "(tokens_per_s|time|generation)": [^,}]*//g' "$run/metrics.jsonl" > "$run.metrics"
  done
  cmp undisturbed.metrics "$1.metrics" || fail "$1: other metrics"
  wait_until "$1: the end of its shared memory" no_stray_shared_memory
}

expect 0 train.json --num-ranks 2 --run-dir undisturbed
expect 0 train.json --num-ranks 2 --run-dir without train.save_in_memory_every=0
same without

# Ranks that die between any two of the tier's own steps, and while others load.
lost=0
for point in memory.before_save memory.before_finish ckpt.index_written memory.written memory.votes_exchanged \
  memory.committed memory.saved train.step_begin engine.before_sums; do
  dies="$point@rank$((lost % 2))@epoch1=20*off->kill"
  loads="memory.restored@rank0@epoch2=kill"
  DSL_FAILPOINTS="$dies; $loads" dslaunch train.json --num-ranks 2 --run-dir "killed$lost" > out 2> err
  code=$?
  if grep -q "built without\|has no failpoints" err; then echo "skipped: no failpoints in this build"; break; fi
  [ "$code" -eq 0 ] || fail "$point: exit code $code"
  expect_text out "restart 2 of 3"
  resumed=$(sed -n 's/^resumed step=\([0-9]*\) from=memory.*/\1/p' out | head -1)
  failed=$(sed -n 's/.*"event": "fault".*"step": \([0-9]*\).*/\1/p' err | head -1)
  [ -n "$resumed" ] || fail "$point: did not go on from memory"
  [ "$((failed - resumed))" -le 1 ] || fail "$point: failed in step $failed, resumed at $resumed"
  same "killed$lost"
  lost=$((lost + 1))
done

# A kill from outside, and other worlds: what two ranks kept, all ranks that come after them can load.
: > out
dslaunch train.json --num-ranks 2 --run-dir outside > out 2> err &
launcher=$!
wait_until "15 steps" sh -c "[ \$(cat outside/metrics.jsonl 2> /dev/null | wc -l) -gt 15 ]"
kill -KILL "$(pgrep -P "$launcher" | tail -1)"
expect_end 0
expect_text out "from memory, or the beginning"
expect_text out "from=memory"
same outside

# What is newer on disk is taken from there.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=24*off->kill" expect 0 train.json --num-ranks 2 --run-dir mixed \
  train.save_in_memory_every=20 train.save_every=8
expect_text out "resumed step=24 from=global_step24"
same mixed

# Memory that is refused costs more steps after a failure, and nothing now.
DSL_FAILPOINTS="memory.before_finish@rank1@epoch1=10*off->error(enospc); train.step_begin@rank0@epoch1=30*off->kill" \
  expect 0 train.json --num-ranks 2 --run-dir refused
expect_text out "could not be kept in memory: rank 1"
expect_text out "resumed step=10 from=memory"
same refused

# Nothing is left of a launcher that is killed.
start
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
wait_until "the ranks of a killed launcher to end" gone "${ranks[@]}"
wait_until "the end of its shared memory" no_stray_shared_memory
finish
