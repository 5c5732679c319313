# A model that scores classes, in real processes: it learns, alike on any number of ranks, goes on as if it had not ended,
# its final/ is taken up again, and what it cannot be trained with is refused before anything starts.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
{ echo "sentence,kind"; for i in $(seq 1 200); do
  if [ $((i % 3)) = 0 ]; then echo "\"good, $i\",fine"; else echo "bad $i,poor"; fi; done; } > texts.csv
cat > bert.json <<'JSON'
{"model": {"family": "bert", "labels": ["poor", "fine"], "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32,
           "intermediate_size": 64, "max_position_embeddings": 32, "vocab_size": 256, "hidden_dropout_prob": 0.1},
 "data": {"train": ["texts.csv"], "validation_fraction": 0.1, "sequence_length": 16,
          "classification": {"text": "sentence", "label": "kind"}},
 "train": {"steps": 60, "eval_every": 30, "save_every": 10}, "train_batch_size": 16,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.005}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-6) }" || fail "$3: $1, expected $2"; }

expect 0 check bert.json
expect 0 plan bert.json
expect 0 profile bert.json
expect 0 bert.json --num-ranks 1 --run-dir one
awk "BEGIN { exit !($(last one validation_accuracy) > 0.95) }" || fail "it learns nothing: $(last one validation_accuracy)"
expect 0 bert.json --num-ranks 2 --run-dir two +zero_optimization.stage=3
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"
near "$(last two validation_accuracy)" "$(last one validation_accuracy)" "the accuracy of two ranks"

expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3 train.steps=30
expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3
cmp two/final/model.safetensors died/final/model.safetensors || fail "a run that went on leaves other weights"

# The folder says which classes there are.
sed 's|"model": {.*|"model": {"folder": "one/final"},|; /"intermediate_size"/d; s|"sequence_length"|"tokenizer": "byte", "sequence_length"|' bert.json > again.json
expect 0 again.json --num-ranks 1 --run-dir again train.steps=1
awk "BEGIN { exit !($(last again validation_accuracy) > 0.95) }" || fail "final/ is another model: $(last again validation_accuracy)"

# What eval tells of the records is what an evaluation of all of them says, by the fields that the run names.
tail -n 21 texts.csv | { head -n 1 texts.csv; cat; } > some.csv
expect 0 bert.json --num-ranks 1 --run-dir some data.validation=some.csv data.validation_fraction=0 train_batch_size=3
expect 0 eval some --data some.csv --batch 4 --json
figure() { sed -n 's/.*"'"$1"'":\([-+.0-9e]*\)[,}].*/\1/p' out; }
near "$(figure loss)" "$(last some validation_loss)" "eval's loss"
near "$(figure accuracy)" "$(last some validation_accuracy)" "eval's accuracy"
grep -q '"label":"fine","scored":7,' out || fail "the counts of a class are others"
expect 0 eval one/final --data some.csv --field sentence --label kind --tokenizer byte
grep -q "^class          poor: 1[34] of 14 right, predicted 1[345] times" out || fail "eval counts otherwise"
expect 2 eval one --data some.csv --stride 2
expect_text err "eval: --stride is for models that predict tokens, and BertForSequenceClassification scores classes"
expect 65 eval one --data some.csv --label nothing
expect_text err "there is no column \"nothing\""

# Numbers of texts, and classes that hold each by itself.
sed 's/,fine$/,2.5/; s/,poor$/,-1/' texts.csv > ratings.csv
sed 's/\["poor", "fine"\]/["rating"]/' bert.json > rating.json
expect 0 rating.json --num-ranks 2 --run-dir rating data.train=ratings.csv
awk "BEGIN { exit !($(last rating validation_loss) < 0.2) }" || fail "no number is learnt: $(last rating validation_loss)"
[ -z "$(last rating validation_accuracy)" ] || fail "a number has no accuracy"
grep -q '"problem_type": "regression"' rating/final/config.json || fail "the problem is not said"
expect 0 eval rating --data ratings.csv --json
grep -q '"label":"rating","mean_absolute_error":0\.' out || fail "eval tells no error"
sed 's/,fine$/,"[""fine"", ""short""]"/; s/,poor$/,poor/' texts.csv > several.csv
expect 0 bert.json --num-ranks 2 --run-dir several data.train=several.csv 'model.labels=["poor", "fine", "short"]' \
  model.problem_type=multi_label_classification
expect 0 eval several --data several.csv
grep -q "^exact          \(1\.0\|0\.9\)" out || fail "several classes are not learnt"

sed 's/,fine$/,nice/' texts.csv > other.csv
expect 78 check bert.json data.train=other.csv
expect_text out "other.csv:4: the class \"nice\" is none of the model's, which are \"poor\", \"fine\""
expect 78 check bert.json sequence_parallel_size=2
expect_text out "BertForSequenceClassification is trained on samples that one rank has whole"
sed 's/"labels": \["poor", "fine"\], //' bert.json > none.json
expect 78 check none.json
expect_text out "data.classification: BertForMaskedLM scores no classes"
expect 78 generate one --prompt the
expect_text err "generate: BertForSequenceClassification scores classes of texts"
finish
