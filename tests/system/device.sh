# Training on a CUDA device by real processes, which share it: the numbers of the CPU, the bits of an undisturbed
# run after a stop and after a death, and tags that go from one kind of device to the other.
# Needs programs that have such a device: those of the emulated one, or of a machine with a GPU.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
seq 1 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16, "validation_fraction": 0.1},
 "train": {"steps": 6, "save_every": 3, "eval_every": 3}, "train_batch_size": 4, "steps_per_print": 1000,
 "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
 "gradient_clipping": 1.0, "zero_optimization": {"stage": 3, "overlap_comm": true}}
JSON
on() {  # on <device> <run directory> <arguments>
  local device=$1 run=$2
  shift 2
  expect 0 train.json --num-ranks 2 --device "$device" --run-dir "$run" "$@"
}
near() {  # near <run> <run>: losses and norms of all steps
  python3 - "$1" "$2" <<'PY' || fail "$1 and $2 differ"
import json, sys
one, other = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:])
assert len(one) == len(other) > 0, (len(one), len(other))
for a, b in zip(one, other):
    for key, allowed in (("loss", 1e-5), ("grad_norm", 1e-3), ("lr", 0)):
        assert abs(a[key] - b[key]) <= allowed * abs(b[key]), (a["step"], key, a[key], b[key])
PY
}

on cpu by-cpu
on cuda whole
expect_text out "through host memory"
near whole by-cpu

# Stopped and gone on.
on cuda parts train.steps=3
on cuda parts train.steps=6
cmp -s whole/final/model.safetensors parts/final/model.safetensors || fail "the bits of a resumed run"

# From one kind of device to the other, and another stage on the way.
on cuda across train.steps=3
on cpu across train.steps=6 zero_optimization.stage=1
near across by-cpu
on cpu back train.steps=3
on cuda back train.steps=6 zero_optimization.stage=2
near back by-cpu

# A rank dies.
dslaunch train.json --num-ranks 2 --device cuda --run-dir killed --max-restarts 3 > out 2> err &
launcher=$!
wait_until "a step" test -s killed/metrics.jsonl
mapfile -t ranks < <(pgrep -P "$launcher" rankd)
kill -KILL "${ranks[0]}"
expect_end 0
cmp -s whole/final/model.safetensors killed/final/model.safetensors || fail "the bits after a death"
finish
