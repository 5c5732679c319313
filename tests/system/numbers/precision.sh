# Number formats in real processes: each ends within 1 % of fp32's loss, and what a loss scale skips is told.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256,
           "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 40, "save_every": 1000}, "train_batch_size": 8, "steps_per_print": 20,
 "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}}
JSON
# The mean over the last ten steps.
loss() { sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$1/metrics.jsonl" | tail -10 | awk '{ s += $1 } END { print s / NR }'; }
close() {  # close <run> <run> <part>: their losses
  awk -v a="$(loss "$1")" -v b="$(loss "$2")" -v part="$3" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (part * b) ^ 2) }' ||
    fail "$1 ends with loss $(loss "$1"), $2 with $(loss "$2")"
}

expect 0 train.json --num-ranks 2 --run-dir fp32
expect 0 train.json --num-ranks 2 --run-dir fp16 +fp16.enabled=true +fp16.initial_scale_power=12 \
  +zero_optimization.stage=2
close fp16 fp32 0.01
grep -q '"loss_scale": 4096,' fp16/metrics.jsonl || fail "no loss scale is told"
expect 0 train.json --num-ranks 2 --run-dir o1 +amp.enabled=true +amp.opt_level=O1 +amp.loss_scale=1024
close o1 fp32 0.01
expect 0 train.json --num-ranks 2 --run-dir autocast +torch_autocast.enabled=true +zero_optimization.stage=1
close autocast fp32 0.01
expect 0 train.json --num-ranks 2 --run-dir narrow +communication_data_type=bf16 +zero_optimization.stage=1
close narrow fp32 0.01

# Far too large a scale: the first steps are skipped, counted, and told; a resumed run counts on.
expect 0 train.json --num-ranks 2 --run-dir skips +fp16.enabled=true +fp16.initial_scale_power=24 \
  +zero_optimization.stage=3 train.steps=20
skipped=$(sed -n 's/.*"skipped_steps": \([0-9]*\).*/\1/p' skips/metrics.jsonl | tail -1)
[ "${skipped:-0}" -ge 2 ] || fail "skipped '$skipped' steps"
grep -q "\"skipped_steps\": $skipped" skips/report.json || fail "report.json does not say how many"
expect_text out "skipped $skipped"
expect 0 train.json --num-ranks 2 --run-dir skips +fp16.enabled=true +fp16.initial_scale_power=24 \
  +zero_optimization.stage=3 train.steps=22
sed -n 's/.*"skipped_steps": \([0-9]*\).*/\1/p' skips/metrics.jsonl | tail -1 | grep -qx "$skipped" ||
  fail "a resumed run has forgotten what was skipped"

# No way out at the smallest scale.
expect 77 train.json --num-ranks 2 --run-dir stuck +fp16.enabled=true +fp16.initial_scale_power=40 \
  +fp16.min_loss_scale=1099511627776 +fp16.hysteresis=1 +zero_optimization.stage=1
expect_text err "overflowed at the minimum scale"
finish
