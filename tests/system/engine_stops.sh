# The whole program on bad input, full disks and killed ranks: one clear message, the right exit code,
# nothing left behind; and a stopped run resumes.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD

seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 100000}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON

# one_error <code> <text> <words...>: a run that must fail with exactly one error block.
one_error() {
  local code=$1 text=$2
  shift 2
  expect "$code" "$@"
  expect_text err "$text"
  [ "$(grep -c '^error: ' err)" -eq 1 ] || fail "dslaunch $*: not exactly one error"
  grep -q 'rank-[0-9]*\] ' err && fail "dslaunch $*: ranks add to the error"
}

one_error 66 "gone.txt" train.json 'data.train=["gone.txt"]'
one_error 78 "256 tokens" train.json model.vocab_size=50
: > empty.txt
one_error 65 "empty.txt" train.json 'data.train=["empty.txt"]'
[ -e final ] && fail "a failed run wrote a final model"

# Ctrl-C, then on from there; the metrics have every step once.
start
kill -INT "$launcher"
expect_end 75
expect_text out "committed tag=global_step"
stopped=$(wc -l < run/metrics.jsonl)
expect 0 train.json --run-dir run --resume required train.steps=$((stopped + 5))
[ "$(wc -l < run/metrics.jsonl)" -eq $((stopped + 5)) ] || fail "metrics do not continue"
last=$(tail -1 run/metrics.jsonl)
[ "${last#"{\"step\": $((stopped + 5)),"}" != "$last" ] || fail "last line of the metrics: $last"
[ -s run/final/model.safetensors ] || fail "no final model"

# Begun anew below the steps of the old checkpoints, and then on from there and not from those.
expect 0 train.json --run-dir run --resume never train.steps=2
expect 0 train.json --run-dir run train.steps=4
expect_text out "step 3/4"
[ "$(wc -l < run/metrics.jsonl)" -eq 4 ] || fail "what was begun anew does not go on: $(cat run/metrics.jsonl)"
[ -d run/checkpoints/global_step$((stopped + 5)) ] || fail "the older training's checkpoint is gone"

# A committed checkpoint with one byte changed is refused.
tag=$(cat run/checkpoints/latest)
shard=$(ls -S run/checkpoints/"$tag"/* | head -1)
printf '\xff' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") / 2)) conv=notrunc 2> /dev/null
for other in run/checkpoints/*/; do [ "$other" = "run/checkpoints/$tag/" ] || rm -rf "$other"; done
expect 77 train.json --run-dir run --resume required train.steps=$((stopped + 9))

# Killed ranks and launchers leave no process and no shared memory.
for victim in 0 1; do
  start --max-restarts 0
  kill -KILL "${ranks[$victim]}"
  expect_end 137
  expect_text err "rank $victim was killed by signal 9"
  gone "${ranks[@]}" || fail "a rank survived"
done
start
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
wait_until "the ranks of a killed launcher to end" gone "${ranks[@]}"
wait_until "the end of their shared memory" no_stray_shared_memory

# A disk that is full at the first checkpoint.
if unshare -rm true 2> /dev/null; then
  mkdir small
  cat > full.sh <<'SCRIPT'
mount -t tmpfs -o size=1200k none small || exit 1
dslaunch train.json --run-dir small/run train.steps=9 train.save_every=1 model.n_embd=128 --max-restarts 0
code=$?
ls small/run/checkpoints >&2
exit $code
SCRIPT
  timeout 90 unshare -rm bash full.sh > out 2> err
  [ $? -eq 74 ] || fail "a disk that is full at the checkpoint: no exit code 74"
  expect_text err "need="
  expect_text err "advice     make room there"
  # Full for a second, at the only checkpoint on the way: training goes on, the tag follows, the weights are those
  # of a run that was left alone.
  cat > filling.sh <<'SCRIPT'
mount -t tmpfs -o size=4m none small || exit 1
dslaunch train.json --run-dir small/run train.steps=4000 train.save_every=2000 train.keep_checkpoints=2 &
until grep -qs '"step": 500,' small/run/metrics.jsonl; do sleep 0.01; done
cat /dev/zero > small/filler 2> /dev/null
until grep -qs "tried again soon" out; do sleep 0.05; done
sleep 1
rm small/filler
wait %1
code=$?
cp small/run/final/model.safetensors filled.safetensors
exit $code
SCRIPT
  timeout 90 unshare -rm bash filling.sh > out 2> err
  [ $? -eq 0 ] || fail "a disk that was full for some seconds ended the run"
  expect_text out "training goes on, and it is tried again soon"
  grep -q restart out && fail "a disk that was full for some seconds cost a restart"
  expect 0 train.json --run-dir alone train.steps=4000
  cmp filled.safetensors alone/final/model.safetensors || fail "other weights"
  # Full inodes are not full blocks.
  cat > inodes.sh <<'SCRIPT'
mount -t tmpfs -o size=8m,nr_inodes=30 none small || exit 1
dslaunch train.json --run-dir small/run train.steps=20000 train.save_every=100 --max-restarts 0 &
until [ -s small/run/metrics.jsonl ]; do sleep 0.01; done
while : > small/$RANDOM$RANDOM; do :; done 2> /dev/null
wait %1
SCRIPT
  timeout 90 unshare -rm bash inodes.sh > out 2> err
  [ $? -eq 74 ] || fail "no inodes at the checkpoint: no exit code 74"
  expect_text err "no inode is left there"
else
  echo "skipped: no user namespaces, so no small disk to fill"
fi

finish
