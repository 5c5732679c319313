# Training that goes on from a checkpoint of DeepSpeed, through the whole program: the losses are those of DeepSpeed itself
# on the same tokens, with other ranks, stages and tiers; check and plan say what it begins with; what does not fit is one error.
here=$(dirname "$(readlink -f "$0")")
. "$here/../launcher.sh"
unset DSLAUNCH_RANKD
golden=$(readlink -f "$here/../../golden/deepspeed")
mkdir model
cp "$golden/zero2_fp32/config.json" model
# The tokens of make.py beside those checkpoints, as a shard of llm.c: 8 steps of 4 samples of 8 tokens.
python3 - <<'PY' || fail "no tokens to train on"
import struct
count = 8 * 4 * 8 + 1
tokens = [(p * p * 7 + p * 3 + p // 5) % 64 for p in range(count)]
with open("tokens.bin", "wb") as out:
    out.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
    out.write(struct.pack(f"<{count}H", *tokens))
PY
cat > train.json <<JSON
{"model": "model", "data": {"train": ["tokens.bin"], "sequence_length": 8, "order": "sequential"},
 "train": {"steps": 8, "resume_from": "$golden/zero2_fp32"}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
                                           "torch_adam": true}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 6,
                                              "warmup_type": "linear"}},
 "zero_optimization": {"stage": 2}}
JSON

losses() {  # losses <run> <name of the checkpoint> <first step>: as DeepSpeed went on, to 1e-5
  python3 - "$1/metrics.jsonl" "$golden/losses.json" "$2" "$3" <<'PY' || fail "$1: other losses than DeepSpeed's"
import json, sys
path, golden, name, first = sys.argv[1:]
got = {line["step"]: line["loss"] for line in map(json.loads, open(path)) if "loss" in line}
wanted = {step: loss for step, loss in enumerate(json.load(open(golden))[name], 1) if step >= int(first)}
far = {step: (got.get(step), loss) for step, loss in wanted.items() if abs(got.get(step, 1e9) - loss) > 1e-5}
sys.exit(f"{far}" if far or set(got) != set(wanted) else 0)
PY
}
goes_on() {  # goes_on <run> <name of the checkpoint> <words...>
  local run=$1 name=$2
  shift 2
  expect 0 train.json --run-dir "$run" "$@"
  expect_text out "resumed step=3 from=$golden/$name"
  expect_text out "(DeepSpeed 0.19.8, ZeRO stage"
  losses "$run" "$name" 4
}
refused() {  # refused <code> <text in the error> <words...>
  local code=$1 text=$2
  shift 2
  rm -rf refused
  expect "$code" train.json --num-ranks 2 --run-dir refused "$@"
  grep -q -- "$text" err || fail "err does not match: $text"
  [ "$(grep -c '^error: ' err)" -eq 1 ] || fail "$*: not exactly one error"
  [ -s refused/metrics.jsonl ] && fail "$*: trained"
}

goes_on one zero2_fp32 --num-ranks 1
expect_text out "note: $golden/zero2_fp32/global_step3: random numbers and the order of samples are those of train.seed"
goes_on four zero2_fp32 --num-ranks 4 zero_optimization.stage=3
goes_on host zero3_fp32 --num-ranks 2 train.resume_from="$golden/zero3_fp32" zero_optimization.offload_optimizer.device=cpu
goes_on named zero2_fp32 --num-ranks 2 train.resume_from="$golden/zero2_fp32/global_step3" zero_optimization.stage=0

# The checkpoints of the run itself come first.
expect 0 train.json --run-dir parts --num-ranks 2 train.steps=5
expect 0 train.json --run-dir parts --num-ranks 4 zero_optimization.stage=1
expect_text out "resumed step=5 from=global_step5"
losses parts zero2_fp32 4
expect 0 train.json --run-dir parts --num-ranks 2 --resume never train.steps=4
expect_text out "resumed step=3 from=$golden/zero2_fp32"

# What it begins with is told beforehand, and so is what does not fit.
expect 0 check train.json --num-ranks 2
expect_text out "train.resume_from: training begins with step 3 of $golden/zero2_fp32/global_step3 (DeepSpeed 0.19.8, ZeRO stage 2, 2 ranks)"
expect 0 plan train.json --num-ranks 2
expect_text out "begins with   step 3 of $golden/zero2_fp32/global_step3"
expect 0 plan train.json --num-ranks 2 --json
expect_text out '"begins_with": "step 3 of '
expect 78 check train.json --num-ranks 2 optimizer.type=Lion optimizer.params='{"lr": 0.01}'
expect_text out "saved with the optimizer AdamW, and this run has lion"
refused 77 "this run has lion.*dslaunch convert" optimizer.type=Lion optimizer.params='{"lr": 0.01}'
refused 77 "took 12 samples.*--accept-changes" train_batch_size=8
refused 66 "global_step4" train.resume_from="$golden/zero2_fp32/global_step4"
refused 78 "is of dslaunch itself.*--run-dir" train.resume_from="$PWD/one"

# What was trained here becomes a checkpoint of DeepSpeed's, from which training goes on as if it had never stopped.
expect 0 convert four universal --to universal
expect_text out "note: DeepSpeed takes betas"
grep -q global_step8 universal/latest_universal || fail "latest_universal does not name step 8"
expect 0 train.json --run-dir five --num-ranks 2 train.steps=5
expect 0 convert five universal5 --to universal
expect 0 train.json --run-dir again --num-ranks 1 train.resume_from="$PWD/universal5" zero_optimization.stage=1
expect_text out "resumed step=5 from=$PWD/universal5/global_step5"
losses again zero2_fp32 6
expect 0 convert universal5 back --config model
cmp back/model.safetensors five/final/model.safetensors || fail "other weights than in final/"
expect 0 convert five/checkpoints/global_step5 again5
expect 0 convert five bin5 --to bin
cmp bin5/config.json five/final/config.json || fail "another config.json than in final/"
expect 2 convert five never --map train.json
expect 0 convert five/checkpoints/global_step5/ slash5 --to bin
cmp slash5/config.json five/final/config.json || fail "a tag with a slash behind it has another config.json"
mkdir other && sed 's/"n_head": *[0-9]*/"n_head": 1/' model/config.json >other/config.json
cmp -s other/config.json model/config.json && fail "the model has one head"
expect 65 convert five never --config other
expect_text err "other/config.json: it is of another model than the weights are"
expect 0 convert bin5 safe5 --config model
cmp safe5/model.safetensors five/final/model.safetensors || fail "pytorch_model.bin has other weights than final/"
cmp again5/model.safetensors five/final/model.safetensors || fail "a tag has other weights than final/"
expect 66 convert five never --to universal --tag global_step6
expect 78 convert back never --to universal
[ -e never ] && fail "a refused conversion left something"

sed -i 's/"n_inner": 32/"n_inner": 24/' model/config.json
refused 65 "c_fc.weight has shape" train.steps=8

finish
