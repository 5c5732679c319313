# A BERT that tells next sentences beside masked tokens, in real processes: it learns both, alike on any number of ranks, goes
# on as if it had not ended, writes a folder of both heads that another run begins with, and is refused where the data are none.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
# Documents that say one word again and again, so that a text of another word is from elsewhere.
for document in $(seq 1 60); do
  for sentence in 1 2 3 4; do echo "w$((document % 9)) w$((document % 9))"; done
  echo
done > story.txt
cat > tokenizer.json <<'JSON'
{"model": {"type": "WordLevel", "unk_token": "[UNK]",
           "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "[MASK]": 4, "w0": 5, "w1": 6, "w2": 7, "w3": 8, "w4": 9,
                     "w5": 10, "w6": 11, "w7": 12, "w8": 13}},
 "pre_tokenizer": {"type": "WhitespaceSplit"},
 "post_processor": {"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                                       "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
 "added_tokens": [{"id": 0, "content": "[PAD]", "special": true}, {"id": 1, "content": "[CLS]", "special": true},
                  {"id": 2, "content": "[SEP]", "special": true}, {"id": 3, "content": "[UNK]", "special": true},
                  {"id": 4, "content": "[MASK]", "special": true}]}
JSON
cat > bert.json <<'JSON'
{"model": {"family": "bert", "task": "next_sentence_prediction", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32,
           "intermediate_size": 64, "max_position_embeddings": 16, "vocab_size": 14, "hidden_dropout_prob": 0.0},
 "data": {"train": ["story.txt"], "validation": ["story.txt"], "tokenizer": "tokenizer.json"},
 "train": {"steps": 20, "save_every": 10}, "train_batch_size": 16,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-6) }" || fail "$3: $1, expected $2"; }

expect 0 bert.json --num-ranks 1 --run-dir one
near "$(last one loss)" "$(awk "BEGIN { print $(last one loss_masked_lm) + $(last one loss_next_sentence) }")" "the parts of the loss"
expect 0 bert.json --num-ranks 2 --run-dir two +zero_optimization.stage=3
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"
expect 0 bert.json --num-ranks 2 --run-dir long train.steps=500
awk "BEGIN { exit !($(last long validation_accuracy) > 0.9) }" || fail "next sentences are not learnt: $(last long validation_accuracy)"
awk "BEGIN { exit !($(last long loss_masked_lm) < 1) }" || fail "masked tokens are not learnt: $(last long loss_masked_lm)"

# A run that ends early and goes on has the pairs and masks that it would have had.
expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3 train.steps=10
expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3
cmp two/final/model.safetensors died/final/model.safetensors || fail "a run that went on leaves other weights"

# The folder has both heads, with which another run begins; without the task it begins with one.
grep -q BertForPreTraining long/final/config.json || fail "$(cat long/final/config.json)"
cat > more.json <<'JSON'
{"model": {"folder": "long/final", "task": "next_sentence_prediction"}, "data": {"train": ["story.txt"]},
 "train": {"steps": 1}, "train_batch_size": 16, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
JSON
expect 0 more.json --num-ranks 1 --run-dir more
awk "BEGIN { exit !($(last more loss_next_sentence) < 0.5) }" || fail "the folder's head is not used: $(last more loss_next_sentence)"
expect 0 check more.json
sed 's/, "task": "next_sentence_prediction"//' more.json > tokens.json
expect 0 check tokens.json
expect_text out "cls.seq_relationship"

# What cannot be is refused before anything starts.
printf 'w1\nw2\n' > single.txt
sed 's/story.txt/single.txt/g' bert.json > single.json
expect 78 check single.json
expect_text out "single.txt: all of it is one document"
expect 65 single.json --num-ranks 1 --run-dir single
sed 's/\[MASK\]/[HIDE]/g' tokenizer.json > maskless.json
sed 's/tokenizer.json/maskless.json/' bert.json > nameless.json
expect 78 check nameless.json
expect_text out "data.masked_lm.mask_token_id: nothing names the token that masks"
sed 's/"bert", /"roberta", /; s/"max_position_embeddings": 16/"max_position_embeddings": 18/' bert.json > roberta.json
expect 78 check roberta.json
expect_text out "model.task: this build has no \"roberta\" that scores whether one text goes on another"
sed 's/"task": "next_sentence_prediction", //; s/"tokenizer":/"next_sentence": {}, "tokenizer":/' bert.json > none.json
expect 78 check none.json
expect_text out "data.next_sentence: BertForMaskedLM tells of no pairs of texts"
finish
