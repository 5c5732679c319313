# Going back to an earlier checkpoint: by `latest`, as with DeepSpeed, and by name. It is followed, said in one line, and
# nobody resumes from what was left behind, whatever crashes.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 9, "save_every": 3, "keep_checkpoints": 3}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
JSON
expect 0 train.json --num-ranks 2 --run-dir good
expect 0 train.json --num-ranks 2 --run-dir whole train.steps=15
copy() { rm -rf run && cp -r good run; }
tags() { (cd run/checkpoints && echo global_step*); }
resumed() { grep -h '^resumed' out | cut -d' ' -f2,3 | tr '\n' ';'; }  # "step=6 from=global_step6;"
same_weights() { cmp -s whole/final/model.safetensors run/final/model.safetensors || fail "other weights"; }

# latest, with and without a line end; the one that is repeated takes the old one's place.
for text in 'global_step6' 'global_step6\n'; do
  copy
  printf "$text" > run/checkpoints/latest
  expect 0 train.json --num-ranks 2 --run-dir run train.steps=15
  [ "$(resumed)" = "step=6 from=global_step6;" ] || fail "resumed: $(resumed)"
  expect_text out "checkpoints/latest names it, and what was made after step 6 is left behind; global_step9 stays"
  [ "$(tags)" = "global_step12 global_step15 global_step9" ] || fail "tags: $(tags)"
  [ "$(wc -l < run/metrics.jsonl)" -eq 15 ] || fail "metrics do not hold every step once"
  same_weights
done

# A rank that dies before the first save, and one that dies after it: from 6, then from 8, never from 9.
copy
echo global_step6 > run/checkpoints/latest
DSL_FAILPOINTS='train.step_begin@rank1@epoch2=1*off->1*kill->off; train.step_begin@rank0@epoch3=3*off->1*kill->off' \
  expect 0 train.json --num-ranks 2 --run-dir run train.steps=15 train.save_every=2
[ "$(resumed)" = "step=6 from=global_step6;step=6 from=global_step6;step=8 from=global_step8;" ] ||
  fail "resumed: $(resumed)"
same_weights

# The launcher and all of its ranks are killed before anything is saved: the next one goes back as well.
copy
: > out
DSL_FAILPOINTS='train.step_begin@rank1=1*off->stop' dslaunch train.json --num-ranks 2 --run-dir run train.steps=15 \
  --resume global_step6 > out 2> err &
launcher=$!
wait_until "going back" grep -q '^resumed step=6' out
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
expect 0 train.json --num-ranks 2 --run-dir run train.steps=15
[ "$(resumed)" = "step=6 from=global_step6;" ] || fail "after the launcher was killed: $(resumed)"
same_weights

# By name, by path, with memory to keep states in, on each host's own disk, and where a resume is required.
for words in "--resume global_step6 --run-dir run" "--resume run/checkpoints/global_step6/" \
  "--resume global_step6 --run-dir run train.save_in_memory_every=1" "--resume $PWD/run/checkpoints/global_step6" \
  "--resume global_step6 --run-dir run train.resume=required"; do
  copy
  expect 0 train.json --num-ranks 2 train.steps=15 $words
  [ "$(resumed)" = "step=6 from=global_step6;" ] || fail "$words: resumed $(resumed)"
  same_weights
done
copy
echo global_step6 > run/checkpoints/latest
expect 0 train.json --num-ranks 2 --run-dir run train.steps=15 --resume required
[ "$(resumed)" = "step=6 from=global_step6;" ] || fail "required: resumed $(resumed)"

# With states in memory a restart goes on from what was kept since, and only from that.
copy
echo global_step6 > run/checkpoints/latest
DSL_FAILPOINTS='train.step_begin@rank1@epoch2=2*off->1*kill->off' \
  expect 0 train.json --num-ranks 2 --run-dir run train.steps=15 train.save_in_memory_every=1
[ "$(resumed)" = "step=6 from=global_step6;step=8 from=memory;" ] || fail "memory: resumed $(resumed)"
same_weights

rm -rf apart
expect 0 train.json --num-ranks 2 --run-dir apart +checkpoint.use_node_local_storage=true
echo global_step3 > apart/checkpoints/latest
expect 0 train.json --num-ranks 2 --run-dir apart train.steps=15 +checkpoint.use_node_local_storage=true
[ "$(resumed)" = "step=3 from=global_step3;" ] || fail "each host's own disk: resumed $(resumed)"
cmp -s whole/final/model.safetensors apart/final/model.safetensors || fail "each host's own disk: other weights"

# dslaunch generate takes what latest names, too, and says so.
copy
rm -r run/final
echo global_step6 > run/checkpoints/latest
expect 0 generate run --prompt 12 --max-tokens 2
expect_text err "latest names global_step6; the newest is global_step9"

# What is not there, is no checkpoint, or is of another run: one error, and nothing is changed.
copy
expect 66 train.json --num-ranks 2 --run-dir run --resume global_step5
expect_text err "has no checkpoint of that name; it has global_step3, global_step6, global_step9"
expect 2 train.json --num-ranks 2 --run-dir good --resume run/checkpoints/global_step6
expect_text err "it is not a checkpoint of --run-dir good"
expect 2 train.json --num-ranks 2 --run-dir run --resume global_stepX
expect_text err "is none of auto, required, never, global_step<N>"
expect 66 train.json --num-ranks 2 --run-dir new --resume global_step5
[ -e new ] && fail "a run directory was made for nothing"
printf X | dd of=run/checkpoints/global_step6/rank-00000.pieces bs=1 seek=200 conv=notrunc 2> /dev/null
expect 77 train.json --num-ranks 2 --run-dir run --resume global_step6
expect_text err "--resume global_step6: it cannot be loaded"
diff -r good/checkpoints/global_step9 run/checkpoints/global_step9 > /dev/null || fail "global_step9 was changed"

# Without a run directory: the newest run of the same file.
(mkdir -p place && cd place && cp ../train.json ../corpus.txt . && timeout 60 dslaunch train.json --num-ranks 1 > out 2>&1)
(cd place && timeout 60 dslaunch train.json --num-ranks 1 train.steps=12 --resume global_step6 > out 2>&1) ||
  fail "--resume without --run-dir: $(tail -3 place/out)"
grep -q '^resumed step=6' place/out || fail "--resume without --run-dir did not go back"
finish
