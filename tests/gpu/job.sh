#!/usr/bin/env bash
# Training jobs by dslaunch on a device, over a short text, against the CPU's and against each other. A step is a
# command of its own, so that each has a result; later ones go on from what `train` left in WORK.
#
# usage: tests/gpu/job.sh STEP BIN WORK TEXT [tiny]
#   train     two ranks that share the device, at stage 3: losses and norms of the CPU
#   memory    the device's bytes of each rank of that job are those of its plan within 2 %
#   resume    stopped and gone on: the bits of the job that was not
#   across    a tag of the device is gone on from by the CPU, and the other way round, at another stage
#   generate  text and loss by the weights that the device has trained: those of the CPU, by the device
#   zero      stages 0 to 3 with two ranks that share the device: losses of one rank within 1e-5
#   tiny      so little that an emulated device does it in seconds
# Exits with 77 and a reason where a step cannot be made.
set -uo pipefail
step=$1 bin=$(cd "$2" && pwd) text=$(realpath "$4") size=${5:-}
mkdir -p "$3" && cd "$3" || exit 1
unset DSLAUNCH_RANKD
skip() { echo "$*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
for program in dslaunch rankd; do [ -x "$bin/$program" ] || skip "there is no $program"; done
command -v python3 > /dev/null || skip "there is no python3 to read reports with"

steps=6 width=64 length=64 batch=8
if [ "$size" = tiny ]; then steps=2 width=16 length=8 batch=4; fi
head -c 20000 "$text" > corpus.txt
cat > train.json <<JSON
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": $width, "n_positions": $length, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": $length},
 "train": {"steps": $steps}, "train_batch_size": $batch, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 1.0,
 "zero_optimization": {"stage": 3, "overlap_comm": true}}
JSON

# on DEVICE RANKS RUN OVERRIDES...: one job; what it printed is shown where it fails.
on() {
  local device=$1 ranks=$2 run=$3 sharing=()
  shift 3
  if [ "$device" = cuda ] && [ "$ranks" -gt 1 ]; then sharing=(--share-gpus); fi
  "$bin/dslaunch" train.json --device "$device" --num-ranks "$ranks" "${sharing[@]}" --max-restarts 0 \
    --run-dir "$run" "$@" > out 2>&1 || { cat out "$run"/logs/* 2> /dev/null; fail "the job $run"; }
}

# near RUN RUN: losses and norms of all steps.
near() {
  python3 - "$1" "$2" "$steps" <<'PYTHON' || fail "$1 and $2 differ"
import json
import sys

one, other = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:3])
assert [line["step"] for line in one] == [line["step"] for line in other] == list(range(1, int(sys.argv[3]) + 1))
worst = 0
for a, b in zip(one, other):
    for key, allowed in (("loss", 1e-5), ("grad_norm", 1e-3), ("lr", 0)):
        assert abs(a[key] - b[key]) <= allowed * abs(b[key]), (a["step"], key, a[key], b[key])
    worst = max(worst, abs(a["loss"] / b["loss"] - 1))
assert one[0]["loss"] != one[-1]["loss"], "nothing was trained"
print(json.dumps({"runs": sys.argv[1:3], "loss_apart_at_most": float(f"{worst:.2g}")}))
PYTHON
}

needs() { [ -e "$1" ] || skip "the step before it left no $1"; }
half=$((steps / 2))
case $step in
  train)
    on cpu 2 by-cpu
    on cuda 2 whole
    grep -q "^cuda:0: " out || fail "ranks did not say that they compute on a device: $(cat out)"
    near whole by-cpu ;;
  memory)
    needs whole/report.json
    python3 - <<'PYTHON' || fail "the device's memory is not that of the plan"
import json

plan, report = (json.load(open(f"whole/{name}.json"))["ranks"] for name in ("plan", "report"))
assert len(plan) == len(report) == 2
for rank, (planned, measured) in enumerate(zip(plan, report)):
    planned, measured = planned["device_bytes_peak"], measured["device_bytes_peak"]
    print(json.dumps({"rank": rank, "planned_device_bytes": planned, "measured_device_bytes": measured}))
    assert planned > 0 and abs(measured / planned - 1) <= 0.02, (rank, planned, measured)
PYTHON
    ;;
  resume)
    needs whole/final/model.safetensors
    on cuda 2 parts "train.steps=$half"
    on cuda 2 parts
    cmp whole/final/model.safetensors parts/final/model.safetensors || fail "other bits after a stop" ;;
  across)
    needs by-cpu/metrics.jsonl
    on cuda 2 to-cpu "train.steps=$half"
    on cpu 2 to-cpu zero_optimization.stage=1
    near to-cpu by-cpu
    on cpu 2 to-cuda "train.steps=$half"
    on cuda 1 to-cuda zero_optimization.stage=2
    near to-cuda by-cpu ;;
  generate)
    needs whole/final
    printf 'In the beginning was the word.\n' > held-out.txt
    for device in cuda cpu; do
      "$bin/dslaunch" generate whole/final --prompt "The " --max-tokens 8 --temperature 0 --dtype fp32 \
        --device $device --json > "text-$device.json" || fail "generate on $device"
      "$bin/dslaunch" eval whole/final --data held-out.txt --seq-length 8 --batch 2 --device $device --json \
        > "loss-$device.json" || fail "eval on $device"
    done
    python3 - <<'PYTHON' || fail "a device says other things than the CPU"
import json

text, loss = ({device: json.load(open(f"{what}-{device}.json")) for device in ("cuda", "cpu")}
              for what in ("text", "loss"))
assert text["cpu"]["ids"] and text["cuda"]["ids"] == text["cpu"]["ids"], text
assert abs(loss["cuda"]["nats"] / loss["cpu"]["nats"] - 1) < 1e-5, loss
PYTHON
    ;;
  zero)
    on cuda 1 one zero_optimization.stage=0 zero_optimization.overlap_comm=false
    for stage in 0 1 2 3; do
      on cuda 2 "stage-$stage" "zero_optimization.stage=$stage" "zero_optimization.overlap_comm=$(
        [ "$stage" = 0 ] && echo false || echo true)"
      grep -q "collectives through host memory" out || fail "the ranks did not share the device: $(cat out)"
      near "stage-$stage" one
    done ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
