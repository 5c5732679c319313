# The best evaluation of a run, in real processes: its checkpoint is kept beside the newest and becomes final/, training ends
# early where evaluations get no better, and a killed run comes to the same.
golden=$(readlink -f "$(dirname "$0")/../../golden/supervised")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
cp -r "$golden/model" model
cp "$golden"/*.jsonl .
head -4 prompt_completion.jsonl > few.jsonl
sed -n '5,$p' prompt_completion.jsonl > others.jsonl
# Four examples are soon learnt by heart, and others told worse and worse.
cat > tune.json <<'JSON'
{"model": "model",
 "data": {"train": ["few.jsonl"], "validation": ["others.jsonl"], "format": "prompt_completion", "sequence_length": 128,
          "too_long": "drop"},
 "train": {"steps": 40, "save_every": 5, "eval_every": 2, "keep_checkpoints": 1, "keep_best": true, "early_stopping_patience": 3},
 "train_batch_size": 4, "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}
JSON
number() { sed -n 's/.*"'"$2"'": *\([-+.0-9e]*\).*/\1/p' "$1/report.json" | head -1; }
# The step with the least validation loss, of those that metrics.jsonl tells.
best_step() {
  sed -n 's/.*"step": \([0-9]*\),.*"validation_loss": \([-+.0-9e]*\)[,}].*/\2 \1/p' "$1/metrics.jsonl" | sort -g | head -1 | cut -d' ' -f2
}

expect 0 tune.json --num-ranks 2 --run-dir run
best=$(best_step run)
[ "$best" -ge 2 ] && [ "$best" -lt 34 ] || fail "the best of 20 evaluations is that of step $best"
last=$((best + 6))
expect_text out "ended early, after step $last of 40: 3 evaluations in turn were no better than that of step $best"
expect_text out "was that of step $best: global_step$best is kept, and final/ has its weights"
[ "$(ls -d run/checkpoints/global_step* | wc -l)" -eq 2 ] || fail "kept: $(ls run/checkpoints)"
[ -d "run/checkpoints/global_step$best" ] && [ -d "run/checkpoints/global_step$last" ] || fail "kept: $(ls run/checkpoints)"
[ "$(number run best_step)" -eq "$best" ] || fail "report.json tells the best step $(number run best_step)"
expect 0 tune.json --num-ranks 2 --run-dir to_best train.steps="$best" train.early_stopping_patience=0 train.keep_best=false
cmp run/final/model.safetensors to_best/final/model.safetensors || fail "final/ is not the model of step $best"

# Killed after the best evaluation and before the end; and while the best state is being saved.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=$((best + 3))*off->kill" expect 0 tune.json --num-ranks 2 --run-dir killed
cmp run/final/model.safetensors killed/final/model.safetensors || fail "a killed run comes to another best model"
[ "$(number killed best_step)" -eq "$best" ] || fail "a killed run has the best step $(number killed best_step)"
DSL_FAILPOINTS="train.best_found@rank0@epoch1=1*off->kill" expect 0 tune.json --num-ranks 2 --run-dir early
cmp run/final/model.safetensors early/final/model.safetensors || fail "a run that was killed at its best comes to another model"

# It is over, also for who starts it again; with more patience it goes on.
expect 0 tune.json --num-ranks 2 --run-dir run
expect_text out "ended early, after step $last of 40"
expect 0 tune.json --num-ranks 2 --run-dir run train.early_stopping_patience=5
expect_text out "ended early, after step $((best + 10)) of 40: 5 evaluations"
# A best checkpoint that somebody has taken away is told of.
rm -r "run/checkpoints/global_step$best"
expect 0 tune.json --num-ranks 2 --run-dir run train.early_stopping_patience=0 train.steps=$((best + 12))
expect_text out "note: the state of step $best, which had the least validation loss, is not there any more: global_step$best"
expect_text out "note: the best evaluation is looked for from here on"
# One that is damaged costs nothing that is there: final/ gets the last state, and says so.
printf xxxx | dd of="early/checkpoints/global_step$best/rank-00000.pieces" bs=1 seek=3000 conv=notrunc 2> /dev/null
expect 0 tune.json --num-ranks 2 --run-dir early
expect_text out "warning: the checkpoint with the least validation loss is damaged, and final/ has the last state: "
[ -s early/final/model.safetensors ] || fail "a damaged checkpoint has taken final/ away"
# Losses of other data are no less and no more; who keeps nothing any more gets the last state.
expect 0 tune.json --num-ranks 2 --run-dir killed 'data.validation=["few.jsonl"]'
expect_text out "note: validation data or losses are others than those of the checkpoint"
expect 0 tune.json --num-ranks 2 --run-dir to_best train.steps=$((best + 2)) train.keep_best=false
if grep -q "is kept" out; then fail "a run that keeps no best state tells of one"; fi

expect 78 check tune.json 'data.validation=[]'
expect_text out "train.keep_best: goes by validation losses, and there are none"
expect 78 check tune.json train.eval_every=0
expect_text out "train.early_stopping_patience: counts evaluations"
expect 78 check tune.json train.early_stopping_patience=0 train.early_stopping_threshold=0.1
expect_text out "train.early_stopping_threshold: is for train.early_stopping_patience"
finish
