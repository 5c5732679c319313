# What a run goes on from, and what it says of it: nothing is passed over, and nothing begins anew unasked.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
seq 1 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 30, "save_every": 10}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
JSON
expect 0 train.json --num-ranks 2 --run-dir good train.steps=30
rm -rf good/final
again() {  # again <code> <arguments>: in a fresh copy of the run
  local want=$1
  shift
  expect "$want" train.json --num-ranks 2 --run-dir run train.steps=40 "$@"
}
copy() { rm -rf run && cp -r good run; }

# An undisturbed one says from what and when.
copy
again 0
grep -qE '^resumed step=30 from=global_step30 saved=20[0-9T:-]+$' out || fail "nobody says what is resumed"
expect_text out "train.steps was 30 and is 40"
cp run/final/model.safetensors forty

# One byte of the newest manifest: back by ten steps, said; an error where the newest is required.
copy
printf X | dd of=run/checkpoints/global_step30/manifest.json bs=1 seek=200 conv=notrunc 2> /dev/null
again 77 --resume required
expect_text err "global_step30/manifest.json"
expect_text err "to go back to it, use --resume auto"
[ -e run/final ] && fail "it trained all the same"
again 0
expect_text out "warning: "
expect_text out "global_step30/manifest.json"
expect_text out "going back from step 30 to step 20"
cmp -s forty run/final/model.safetensors || fail "the weights are not those of an undisturbed run"

# Manifests gone, tags gone, all of it gone: no start from step 0, but with --resume never.
copy
rm run/checkpoints/*/manifest.json
again 77
expect_text err "has no manifest.json"
expect_text err "begin anew with --resume never"
[ "$(wc -l < run/metrics.jsonl)" -eq 30 ] || fail "the metrics were changed"
rm -rf run/checkpoints/global_step*
again 77
expect_text err "names global_step30, which is not there"
rm -rf run/checkpoints
again 77
expect_text err "committed.json names global_step30"
rm run/committed.json
again 77
expect_text err "metrics.jsonl holds steps up to 30"
again 0 --resume never
[ "$(wc -l < run/metrics.jsonl)" -eq 40 ] || fail "metrics of a run begun anew"

# A launch that was ended before its first save has nothing to lose, and says so.
rm -rf run
: > out
dslaunch train.json --num-ranks 2 --run-dir run train.steps=100000 train.save_every=100000 > out 2> err &
launcher=$!
wait_until "some steps" sh -c '[ "$(cat run/metrics.jsonl 2> /dev/null | wc -l)" -gt 20 ]'
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
again 0
expect_text out "and saved nothing; training begins anew"

# A training that was begun anew and ended before its first save: the one before it stays forgotten, for every launch
# after it, until there is a checkpoint of the new one.
copy
: > out
dslaunch train.json --num-ranks 2 --run-dir run --resume never train.steps=100000 train.save_every=100000 > out 2> err &
launcher=$!
wait_until "some steps" sh -c '[ "$(cat run/metrics.jsonl 2> /dev/null | wc -l)" -gt 40 ]'
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
again 66 --resume required
again 0 train.save_every=1000
expect_text out "and saved nothing; training begins anew"
grep -q '^resumed step=30' out && fail "a launch went on from what was to be forgotten"
[ "$(wc -l < run/metrics.jsonl)" -eq 40 ] || fail "metrics of a run begun anew twice"
again 0 train.steps=42
expect_text out "resumed step=40"

# Another model, other data, another seed, another batch.
copy
again 77 model.n_layer=1
expect_text err "is of another model"
again 77 model.n_embd=32
again 77 model.n_head=1
expect_text err "n_head was 2 and is 1"
for change in train.seed=7 train_batch_size=8 data.sequence_length=8; do
  copy
  again 77 "$change"
  expect_text err "--accept-changes"
  again 0 "$change" --accept-changes
done
copy
sed -i '500s/.*/x/' corpus.txt
again 77
expect_text err "the training data are others"
again 0 --accept-changes
expect_text out "note: since checkpoint global_step30: the training data are others"
seq 1 3000 > corpus.txt

# A model made of a damaged tag says so, too.
copy
rm -rf run/final
printf X | dd of=run/checkpoints/global_step30/manifest.json bs=1 seek=200 conv=notrunc 2> /dev/null
dslaunch generate run --prompt 1 --max-tokens 1 > out 2> err || fail "generate from the tag before"
expect_text err "taken is global_step20"
finish
