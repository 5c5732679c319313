# Preference training of a folder on pairs of answers, in real processes: alike on any number of ranks and beside adapters, a
# killed run that goes on with equal bits and without asking the reference again, pairs shown, and records that are none named.
golden=$(readlink -f "$(dirname "$0")/../../golden")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
cp -r "$golden/supervised/model" model
cp -r "$golden/preference/reference" reference
cp "$golden"/preference/*.jsonl .
cat > pairs.json <<'JSON'
{"model": "model",
 "data": {"train": ["pairs_chat.jsonl"], "validation": ["pairs_implicit.jsonl"], "format": "preference", "sequence_length": 200},
 "train": {"steps": 12, "save_every": 4, "eval_every": 6}, "train_batch_size": 4, "zero_optimization": {"stage": 3},
 "preference": {"loss_type": "sigmoid", "beta": 0.1},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.002}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-8) }" || fail "$3: $1, expected $2"; }
asked() { grep -c "asking the reference" "$1"/logs/* 2> /dev/null | awk -F: '{ n += $NF } END { print n + 0 }'; }

expect 0 check pairs.json
expect 0 pairs.json --num-ranks 1 --run-dir one
expect 0 pairs.json --num-ranks 2 --run-dir two
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two reward_margin)" "$(last one reward_margin)" "rewards on two ranks"
near "$(last two validation_reward_margin)" "$(last one validation_reward_margin)" "rewards of the evaluation"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"
awk "BEGIN { exit !($(last one reward_accuracy) == 1 && $(last one loss) < 0.4) }" || fail "nothing is learnt"

# A rank that is killed in a step: the run goes on by itself, with the samples and bits that it would have had.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 pairs.json --num-ranks 2 --run-dir killed
cmp two/final/model.safetensors killed/final/model.safetensors || fail "a run that went on leaves other weights"
cmp two/reference.bin killed/reference.bin || fail "the reference has said something else"
if cat out err killed/logs/* | grep -q "asked once more"; then fail "the reference was asked twice"; fi
# Where its answers are lost or damaged it is asked once more, and says the same.
printf x | dd of=killed/reference.bin bs=1 seek=100 conv=notrunc 2> /dev/null
expect 0 pairs.json --num-ranks 2 --run-dir killed train.steps=16
expect_text out "the reference is asked once more: "
expect_text out "reference.bin: it is of another run, or is damaged"
expect 0 pairs.json --num-ranks 2 --run-dir two train.steps=16
cmp two/final/model.safetensors killed/final/model.safetensors || fail "a reference that is asked again says something else"
# So it does on a rank alone, whatever else it is asked with.
expect 0 pairs.json --num-ranks 1 --run-dir alone train.steps=8 train.eval_every=0
expect 0 pairs.json --num-ranks 1 --run-dir again train.steps=4 train.eval_every=0
rm again/reference.bin
expect 0 pairs.json --num-ranks 1 --run-dir again train.steps=8 train.eval_every=0
cmp alone/final/model.safetensors again/final/model.safetensors || fail "a reference that is asked in two parts says something else"
# A rank that is killed while it is asked.
DSL_FAILPOINTS="train.referenced@rank0@epoch1=1*kill" expect 0 pairs.json --num-ranks 2 --run-dir early train.steps=4
expect 0 pairs.json --num-ranks 2 --run-dir late train.steps=4
cmp early/final/model.safetensors late/final/model.safetensors || fail "a run that was killed before its first step differs"

# A reference of its own, and adapters, whose base is it.
expect 0 pairs.json --num-ranks 2 --run-dir other preference.reference=reference train.steps=2
awk "BEGIN { exit !($(last other loss) != $(last two loss)) }" || fail "another reference changes nothing"
expect 0 pairs.json --num-ranks 2 --run-dir adapted lora.r=4 train.steps=2
[ -s adapted/final/adapter_model.safetensors ] || fail "no adapters are there"
mkdir small && sed 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 1/' reference/config.json > small/config.json
expect 78 check pairs.json preference.reference=adapted/final
expect_text out "preference.reference: "
expect_text out "dslaunch merge makes one of adapters"
cp -r reference empty && rm empty/model.safetensors
expect 78 check pairs.json preference.reference=empty
expect_text out "preference.reference: "
expect 78 check pairs.json preference.reference=small
expect_text out "preference.reference: $PWD/small is another model than the one that is trained: num_hidden_layers"
expect 78 pairs.json --num-ranks 2 --run-dir small_one preference.reference=small

# A loss without a reference: none is asked, nothing of it is kept, and a run goes on with equal bits. Its likelihood is a mean over
# the pairs of a micro-batch, so that ranks are compared by micro-batches of one size.
free="preference.loss_type=orpo train_micro_batch_size_per_gpu=1 train.steps=6 train.save_every=2 train.eval_every=3"
expect 0 pairs.json --num-ranks 1 --run-dir free_one $free
expect 0 pairs.json --num-ranks 2 --run-dir free_two $free
near "$(last free_two loss)" "$(last free_one loss)" "two ranks without a reference"
near "$(last free_two reward_margin)" "$(last free_one reward_margin)" "rewards without a reference"
near "$(last free_two validation_loss)" "$(last free_one validation_loss)" "an evaluation without a reference"
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=4*off->kill" expect 0 pairs.json --num-ranks 2 --run-dir free_killed $free
cmp free_two/final/model.safetensors free_killed/final/model.safetensors || fail "a run without a reference goes on otherwise"
DSL_FAILPOINTS="train.referenced@rank0=kill" expect 0 pairs.json --num-ranks 2 --run-dir free_unasked $free train.steps=1
[ -z "$(ls -d free_*/reference.bin 2> /dev/null)" ] || fail "a reference is kept that nobody asked"
expect 0 check pairs.json $free preference.cpo_alpha=0.5
expect_text out "preference.cpo_alpha: has no effect with loss_type orpo"
expect 78 check pairs.json $free preference.reference=reference
expect_text out "preference.reference: excludes loss_type orpo, which asks no reference"
for loss in simpo cpo; do
  expect 0 pairs.json --num-ranks 2 --run-dir free_$loss preference.loss_type=$loss lora.r=4 train.steps=2
done

# Pairs are shown.
expect 0 look-at-data pairs.json --count 1
expect_text out "chosen: "
expect_text out "rejected: "
expect_text out "⟦Hello! How can I help you?<|im_end|>"
expect_text out "⟦No.<|im_end|>"
expect 0 look-at-data pairs.json --json --sample 1
expect_text out '"begins":"rejected"'

# A first configuration for such data is written, and trains.
expect 0 init --finetune model --data pairs_text.jsonl --steps 2 --output tune.json
expect 0 check tune.json
expect_text out "no errors"
expect 0 tune.json --num-ranks 2 --run-dir tuned

# What is wrong with records.
{ cat pairs_chat.jsonl; echo '{"prompt": "a", "chosen": "b", "rejected": "b"}'; } > same.jsonl
sed 's/pairs_chat.jsonl/same.jsonl/' pairs.json > same.json
expect 78 check same.json
expect_text out "same.jsonl:13: "
expect 65 same.json --num-ranks 2 --run-dir same
[ ! -e same/checkpoints ] || fail "a run that could not read its data left checkpoints"
expect 78 check pairs.json data.packing=true
expect_text out "data.packing: excludes data.format preference"
finish
