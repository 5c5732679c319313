# Learning from a teacher, in real processes: alike on any number of ranks and wherever both models lie, a killed run that goes on
# with equal bits, checkpoints and final/ without the teacher, another teacher refused, and teachers that cannot be learnt from.
golden=$(readlink -f "$(dirname "$0")/../../golden")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
cp -r "$golden/supervised/model" model
cp -r "$golden/preference/reference" teacher
cp "$golden"/supervised/chat.jsonl .
cat > learn.json <<'JSON'
{"model": "model",
 "data": {"train": ["chat.jsonl"], "validation": ["chat.jsonl"], "format": "chat", "sequence_length": 128},
 "train": {"steps": 8, "save_every": 4, "eval_every": 4, "seed": 3,
           "distillation": {"teacher": "teacher", "alpha": 0.5, "beta": 0.5, "temperature": 2, "layers": {"1": 1}}},
 "train_batch_size": 4, "zero_optimization": {"stage": 3},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.002}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-8) }" || fail "$3: $1, expected $2"; }

expect 0 check learn.json
expect 0 plan learn.json --num-ranks 2
expect_text out "teacher       "
expect 0 learn.json --num-ranks 1 --run-dir one
expect_text out "teacher    llama, "
expect 0 learn.json --num-ranks 2 --run-dir two
for name in loss loss_distillation loss_hidden validation_loss; do
  near "$(last two $name)" "$(last one $name)" "$name on two ranks"
done
expect 0 learn.json --num-ranks 2 --run-dir offloaded zero_optimization.offload_param.device=cpu
cmp two/final/model.safetensors offloaded/final/model.safetensors || fail "a teacher that is offloaded says something else"
expect 0 learn.json --num-ranks 2 --run-dir tensor tensor_parallel.autotp_size=2 zero_optimization.stage=1
near "$(last tensor loss)" "$(last one loss)" "tensor ranks"
if grep -aq "teacher\." two/checkpoints/global_step8/* two/final/*; then fail "the teacher is in a checkpoint"; fi

# A rank that is killed in a step: the run goes on by itself, with equal bits.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 learn.json --num-ranks 2 --run-dir killed
cmp two/final/model.safetensors killed/final/model.safetensors || fail "a run that went on leaves other weights"
# The teacher's folder may move; another teacher is another run.
cp -r teacher moved
expect 0 learn.json --num-ranks 1 --run-dir killed train.steps=10 train.distillation.teacher=moved
expect 0 learn.json --num-ranks 1 --run-dir two train.steps=10
cmp two/final/model.safetensors killed/final/model.safetensors || fail "a teacher that has moved says something else"
expect 77 learn.json --num-ranks 1 --run-dir two train.steps=12 train.distillation.teacher=model
expect_text err "the weights of the teacher are others"
expect 0 learn.json --num-ranks 1 --run-dir two train.steps=12 train.distillation.teacher=model --accept-changes

# Until a step, and then without it.
expect 0 learn.json --num-ranks 2 --run-dir staged zero_optimization.stage=2 train.distillation.until_step=5
[ "$(grep -c '"loss_distillation": [0-9]' staged/metrics.jsonl)" = 5 ] || fail "the teacher is asked after its last step"
DSL_FAILPOINTS="train.step_begin@rank0@epoch1=6*off->kill" expect 0 learn.json --num-ranks 2 --run-dir staged_killed \
  zero_optimization.stage=2 train.distillation.until_step=5
cmp staged/final/model.safetensors staged_killed/final/model.safetensors || fail "a staged run that went on leaves other weights"

# Adapters learn from a teacher, too.
expect 0 learn.json --num-ranks 2 --run-dir adapted lora.r=4 train.steps=2
[ -s adapted/final/adapter_model.safetensors ] || fail "no adapters are there"

# Teachers that cannot be learnt from, and settings that make no sense.
cp -r teacher empty && rm empty/model.safetensors
cp -r "$golden/families/bert" bert
for bad in "teacher=empty" "teacher=nowhere" "teacher=bert" "layers={\"9\":1}" "layers={\"0\":1}" "temperature=0" "until_step=3"; do
  expect 78 check learn.json "train.distillation.$bad"
  expect_text out "train.distillation"
done
expect 78 check learn.json pipeline.stages=2
expect_text out "a teacher is not cut into stages"
finish
