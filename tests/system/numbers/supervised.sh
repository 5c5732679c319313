# Supervised fine-tuning of a folder on conversations, in real processes: packed and padded samples, alike on any number of ranks,
# a killed run that goes on with equal bits, samples shown with what is learnt, and records that are none named with file and line.
golden=$(readlink -f "$(dirname "$0")/../../golden/supervised")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
cp -r "$golden/model" model
cp "$golden"/*.jsonl .
cat > chat.json <<'JSON'
{"model": "model",
 "data": {"train": ["chat.jsonl"], "validation": ["sharegpt.jsonl"], "format": "chat", "sequence_length": 100, "packing": true},
 "train": {"steps": 12, "save_every": 4, "eval_every": 6}, "train_batch_size": 6, "zero_optimization": {"stage": 3},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.002}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-8) }" || fail "$3: $1, expected $2"; }

expect 0 check chat.json
expect_text out "24 examples are packed into 12 samples"
expect 0 chat.json --num-ranks 1 --run-dir one
expect 0 chat.json --num-ranks 2 --run-dir two
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"
# Evaluations count every token that is learnt once, packed or not.
expect 0 chat.json --num-ranks 1 --run-dir padded data.packing=false train.steps=1 optimizer.params.lr=0 train_batch_size=24
expect 0 chat.json --num-ranks 1 --run-dir packed train.steps=1 optimizer.params.lr=0 train_batch_size=12
near "$(last padded validation_loss)" "$(last packed validation_loss)" "the evaluation of packed samples"

# A rank that is killed in a step: the run goes on by itself, with the samples and bits that it would have had.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 chat.json --num-ranks 2 --run-dir killed
cmp two/final/model.safetensors killed/final/model.safetensors || fail "a run that went on leaves other weights"

# What is learnt is shown.
expect 0 look-at-data chat.json --count 1 data.packing=false
expect_text out "sample 0, $PWD/chat.jsonl:1: 26 tokens, 13 of them learnt"
expect_text out "⟦Hello! How can I help you?<|im_end|>⟧"
expect 0 look-at-data chat.json --json --validation --sample 11
expect_text out '"sample":11,"place":"'
expect 2 look-at-data chat.json --sample 12
expect_text err "--sample 12: there are 12 samples, counted from 0"

expect 78 look-at-data chat.json data.sequence_length=4096
expect_text err "data.sequence_length"

# A template that asks for the date is told the day on which the run began, also when that was another one.
{ echo "{{- strftime_now('%d %b %Y') }}"; cat model/chat_template.jinja; } > dated.jinja
expect 0 look-at-data chat.json --count 1 data.chat.template=dated.jinja data.date=2024-07-26
expect_text out "26 Jul 2024"
expect 0 chat.json --num-ranks 1 --run-dir dated data.chat.template=dated.jinja train.steps=2
grep -q "\"date\": \"$(date +%Y)-" dated/config.json || fail "config.json has no date"
expect 0 chat.json --num-ranks 1 --run-dir past data.chat.template=dated.jinja data.date=2020-01-02 train.steps=2
expect 0 chat.json --num-ranks 1 --run-dir past data.chat.template=dated.jinja train.steps=4
grep -q '"date": "2020-01-02"' past/config.json || fail "a run that goes on has another date than it began with"
expect 78 check chat.json data.date=30.11.2026
expect_text out 'data.date: "30.11.2026" is no date'

# A first configuration for such data is written, and trains.
expect 0 init --finetune model --data chat.jsonl --steps 2 --output tune.json
expect 0 check tune.json
expect_text out "no errors"
expect 0 tune.json --num-ranks 2 --run-dir tuned
seq 100 > numbers.txt
expect 78 init --finetune model --data numbers.txt --output other.json
expect_text err "numbers.txt"
[ ! -e other.json ] || fail "a file was written for data without examples"

# Other kinds of data, and what is wrong with them.
for format in prompt_completion alpaca; do
  sed "s/chat.jsonl/$format.jsonl/; s/sharegpt.jsonl/$format.jsonl/; s/\"format\": \"chat\"/\"format\": \"prompt_completion\"/" \
    chat.json > "$format.json"
  expect 0 "$format.json" --num-ranks 1 --run-dir "$format" data.packing=false data.sequence_length=128 data.too_long=drop
done
{ cat chat.jsonl; echo '{"messages": [{"role": "asistant", "content": "x"}]}'; } > typo.jsonl
sed 's/chat.jsonl/typo.jsonl/' chat.json > typo.json
expect 78 check typo.json
expect_text out "typo.jsonl:25: message 1 of \"messages\" has the role \"asistant\""
expect 65 typo.json --num-ranks 2 --run-dir typo
[ ! -e typo/checkpoints ] || fail "a run that could not read its data left checkpoints"
sed 's/"format": "chat", //' chat.json > text.json
expect 78 check text.json
expect_text out "data.packing: is for data.format chat, prompt_completion or tokenized, and that is text"
rm model/chat_template.jinja
expect 78 check chat.json
expect_text out "there is no chat template beside the tokenizer"
expect_text out "data.chat.template names a file with one"
finish
