# A model that tells masked tokens, in real processes: it learns, alike on any number of ranks, goes on as if it had not
# ended, and is refused where next tokens are wanted.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
for i in $(seq 1 400); do echo "the $((i % 7)) birds of $((i % 5)) trees sing"; done > corpus.txt
cat > bert.json <<'JSON'
{"model": {"family": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64,
           "max_position_embeddings": 32, "vocab_size": 257, "hidden_dropout_prob": 0.1},
 "data": {"train": ["corpus.txt"], "validation_fraction": 0.1, "masked_lm": {"mask_token_id": 256, "whole_word_mask": true}},
 "train": {"steps": 40, "eval_every": 20, "save_every": 10}, "train_batch_size": 16,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.005}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-6) }" || fail "$3: $1, expected $2"; }

expect 0 bert.json --num-ranks 1 --run-dir one
first=$(sed -n 's/.*"loss": \([-+.0-9e]*\)[,}].*/\1/p' one/metrics.jsonl | head -1)
awk "BEGIN { exit !($(last one validation_loss) < 0.75 * $first) }" || fail "it learns nothing: $first, $(last one validation_loss)"
grep -q bits_per_byte one/metrics.jsonl one/report.json && fail "the losses of masked tokens are no bits per byte"
expect 0 bert.json --num-ranks 2 --run-dir two +zero_optimization.stage=3
near "$(last two loss)" "$(last one loss)" "two ranks"
near "$(last two validation_loss)" "$(last one validation_loss)" "the evaluation of two ranks"

# A run that ends early and goes on masks what it would have masked.
expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3 train.steps=30
expect 0 bert.json --num-ranks 2 --run-dir died +zero_optimization.stage=3
cmp two/final/model.safetensors died/final/model.safetensors || fail "a run that went on leaves other weights"

expect 78 bert.json --num-ranks 1 --run-dir bad +train.sample_prompt=the
expect_text err "train.sample_prompt: \"bert\" sees both sides"
sed 's/"mask_token_id": 256, //' bert.json > nameless.json
expect 78 check nameless.json
expect_text out "data.masked_lm.mask_token_id: nothing names the token that masks"
sed 's/"family": "bert".*/"family": "gpt2", "n_positions": 32},/; /"max_position_embeddings"/d' bert.json > causal.json
expect 78 check causal.json
expect_text out "data.masked_lm: \"gpt2\" predicts next tokens"
expect 78 generate one --prompt the
expect_text err "generate: \"bert\" sees both sides"
expect 78 eval one --data corpus.txt
expect_text err "eval: \"bert\" sees both sides"
finish
