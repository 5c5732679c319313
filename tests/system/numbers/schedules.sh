# The documents' learning-rate range test and the cycle made of it, in real processes: the rate of each step is that of
# the formula, also where a run goes on.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt

# rates <run> <formula> <steps>: each step's rate, by the schedule's own count i, which is -1 in the first step.
rates() {
  sed -n 's/.*"step": \([0-9]*\),.*"lr": \([-+.0-9e]*\).*/\1 \2/p' "$1/metrics.jsonl" > "$1/rates"
  [ "$(wc -l < "$1/rates")" -eq "$3" ] || fail "$1 has rates of $(wc -l < "$1/rates") steps, expected $3"
  awk "function wrong(want) { return (\$2 - want) ^ 2 > (1e-6 * want) ^ 2 }
       { i = \$1 - 2; if (wrong($2)) { print \"step \" \$1 \": \" \$2 \", expected \" ($2); bad = 1 } }
       END { exit bad }" "$1/rates" > wrong || fail "$1: $(head -3 wrong)"
}

cat > range.json <<'JSON'
{"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.0001, "lr_range_test_step_size": 200,
  "lr_range_test_step_rate": 5, "lr_range_test_staircase": false}}
JSON
cat > cycle.json <<'JSON'
{"type": "OneCycle", "params": {"cycle_min_lr": 0.002, "cycle_max_lr": 0.005,
  "cycle_first_step_size": 2000, "cycle_second_step_size": 2000}}
JSON
with() {  # with <schedule>: train.json that has it
  sed "s|\"train_batch_size\"|\"scheduler\": $(tr '\n' ' ' < "$1"), &|" train.json > with.json
}

with range.json
expect 0 with.json --num-ranks 2 --run-dir range train.steps=30 +zero_optimization.stage=2
rates range 'i < 0 ? 0.0001 : 0.0001 * (1 + 5 * (i + 1) / 200)' 30
expect 0 with.json --num-ranks 2 --run-dir stairs train.steps=25 scheduler.params.lr_range_test_staircase=true \
  scheduler.params.lr_range_test_step_size=10
rates stairs 'i < 0 ? 0.0001 : 0.0001 * (1 + 5 * int((i + 1) / 10))' 25

with cycle.json
expect 0 with.json --num-ranks 2 --run-dir cycle train.steps=30
rates cycle 'i < 0 ? 0.002 : 0.002 + 0.003 * (i + 1) / 2000' 30

# All of a cycle and its decay, in two runs.
whole=(scheduler.params.cycle_first_step_size=8 scheduler.params.cycle_second_step_size=4
  +scheduler.params.decay_step_size=2 +scheduler.params.decay_lr_rate=0.5 +zero_optimization.stage=3)
up='0.002 + 0.003 * (i + 1) / 8' down='0.002 + 0.003 * (12 - i - 1) / 4'
decay='0.002 / (1 + 0.5 * (i - 11) / 2)'
expect 0 with.json --num-ranks 2 --run-dir whole train.steps=20 "${whole[@]}"
rates whole "i < 8 ? $up : i < 12 ? $down : $decay" 20
expect 0 with.json --num-ranks 2 --run-dir parts train.steps=6 "${whole[@]}"
expect 0 with.json --num-ranks 2 --run-dir parts train.steps=20 "${whole[@]}"
rates parts "i < 8 ? $up : i < 12 ? $down : $decay" 20
cmp whole/final/model.safetensors parts/final/model.safetensors || fail "a resumed cycle leaves other weights"
# Momentum is a part of it.
expect 0 with.json --num-ranks 2 --run-dir fixed train.steps=20 "${whole[@]}" +scheduler.params.cycle_momentum=false
cmp -s whole/final/model.safetensors fixed/final/model.safetensors && fail "momentum is not cycled"

expect 78 with.json --num-ranks 2 --run-dir bad scheduler.params.cycle_first_step_size=0
expect_text err "cycle_first_step_size"
finish
