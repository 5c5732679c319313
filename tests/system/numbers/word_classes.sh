# A model that scores classes of words, in real processes: it learns from a model of masked tokens, alike on any number of ranks,
# its final/ says what it is and is taken up again, and what it cannot be trained with is refused before anything starts.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
for i in $(seq 1 150); do printf 'x%d O\nmr O\nbo%d B-NAME\nly%d I-NAME\n\n' $((i % 7)) $((i % 5)) $((i % 3)); done > words.conll
seq 1 400 > plain.txt
cat > base.json <<'JSON'
{"model": {"family": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32,
           "intermediate_size": 64, "max_position_embeddings": 32, "vocab_size": 257},
 "data": {"train": ["plain.txt"], "sequence_length": 32, "masked_lm": {"mask_token_id": 256}},
 "train": {"steps": 2}, "train_batch_size": 4, "optimizer": {"type": "AdamW"}}
JSON
cat > words.json <<'JSON'
{"model": {"folder": "base/final", "task": "token_classification", "labels": ["O", "B-NAME", "I-NAME"]},
 "data": {"train": ["words.conll"], "validation_fraction": 0.1, "sequence_length": 24, "tokenizer": "byte"},
 "train": {"steps": 60, "eval_every": 60}, "train_batch_size": 16,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.005}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-6) }" || fail "$3: $1, expected $2"; }
learnt() { awk "BEGIN { exit !($(last "$1" validation_accuracy) > 0.95) }" || fail "$2: $(last "$1" validation_accuracy)"; }

expect 0 base.json --num-ranks 1 --run-dir base
expect 0 check words.json
expect_text out "classifier.weight, classifier.bias begin anew"
expect 0 plan words.json
expect 0 words.json --num-ranks 1 --run-dir one
learnt one "it learns nothing"
grep -q '"BertForTokenClassification"' one/final/config.json || fail "final/ is of another class"
grep -q '"2": "I-NAME"' one/final/config.json || fail "final/ has other classes"
expect 0 words.json --num-ranks 2 --run-dir two +zero_optimization.stage=3
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"
near "$(last two validation_accuracy)" "$(last one validation_accuracy)" "the accuracy of two ranks"

# The folder says which classes there are, and of what.
sed 's|"model": {.*|"model": {"folder": "one/final"},|' words.json > again.json
expect 0 again.json --num-ranks 1 --run-dir again train.steps=1
learnt again "final/ is another model"

tail -n 25 words.conll > some.conll
expect 0 eval one --data some.conll --json
for figure in '"accuracy":1\.0' '"samples":5' '"scored":20' '"right":20'; do
  grep -q "$figure," out || fail "eval tells otherwise than the run: no $figure"
done

# The same sentences as JSON lines are the same samples.
awk '/^$/ { printf "{\"tokens\": [%s], \"ner_tags\": [%s]}\n", w, t; w = t = ""; next }
     { w = w (w == "" ? "" : ", ") "\"" $1 "\""; t = t (t == "" ? "" : ", ") "\"" $2 "\"" }' words.conll > words.jsonl
expect 0 words.json --num-ranks 1 --run-dir json data.train=words.jsonl train.steps=3
expect 0 words.json --num-ranks 1 --run-dir conll train.steps=3
cmp json/final/model.safetensors conll/final/model.safetensors || fail "JSON lines are other samples"

sed 's/B-NAME/B-PLACE/' words.conll > other.conll
expect 78 check words.json data.train=other.conll
expect_text out "other.conll:3: the class \"B-PLACE\" is none of the model's, which are \"O\", \"B-NAME\", \"I-NAME\""
expect 78 check words.json +data.classification.text=body
expect_text out "BertForTokenClassification scores classes of tokens; remove the section"
expect 78 check words.json +data.field=body
expect_text out "data.token_classification names the fields of BertForTokenClassification"
expect 78 check again.json +model.task=sequence_classification
expect_text out "BertForTokenClassification is no model of model.task"
expect 78 check words.json sequence_parallel_size=2
expect 78 generate one --prompt the
expect_text err "generate: BertForTokenClassification scores classes of tokens"
finish
