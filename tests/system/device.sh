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
: > out
dslaunch train.json --num-ranks 2 --device cuda --run-dir killed --max-restarts 3 > out 2> err &
launcher=$!
wait_until "a step" test -s killed/metrics.jsonl
mapfile -t ranks < <(pgrep -P "$launcher" rankd)
kill -KILL "${ranks[0]}"
expect_end 0
cmp -s whole/final/model.safetensors killed/final/model.safetensors || fail "the bits after a death"

# Text and loss by the device are the CPU's.
head -c 300 corpus.txt > held-out.txt
for device in cpu cuda; do
  expect 0 generate whole/final --prompt "1234" --max-tokens 20 --temperature 0 --dtype fp32 --device $device
  cp out "text-$device"
  expect 0 eval whole/final --data held-out.txt --seq-length 32 --stride 16 --batch 3 --device $device --json
  cp out "loss-$device"
done
cmp text-cpu text-cuda || fail "the device says other things"
python3 - <<'PY' || fail "the device has another loss"
import json
cpu, cuda = (json.load(open(f"loss-{device}")) for device in ("cpu", "cuda"))
assert cpu["predicted_tokens"] == cuda["predicted_tokens"] == 299, (cpu, cuda)
assert abs(cuda["nats"] / cpu["nats"] - 1) < 1e-6, (cpu, cuda)
PY
expect 0 generate whole/checkpoints/global_step6 --prompt "1" --max-tokens 2 --dtype bf16 --device cuda:0
expect 2 generate whole/final --prompt "1" --num-ranks 2 --device cuda
expect_text err "stages of a model that is cut compute on CPUs"

# What is said of products, and what TF32 does to them.
on cuda tf32 train.allow_tf32=true train.tune_matmul=true train.steps=2
expect_text out "products of fp32 in TF32"
expect_text out "no choice to tune"
python3 - <<'PY' || fail "TF32 changes the losses by nothing, or by too much"
import json
exact, rounded = ([json.loads(line)["loss"] for line in open(f"{run}/metrics.jsonl")][:2] for run in ("whole", "tf32"))
apart = max(abs(a / b - 1) for a, b in zip(exact, rounded, strict=True))
assert 0 < apart < 1e-3, (exact, rounded)
PY

# The plan for a GPU, made anywhere, is what the ranks have measured of it, host memory included.
expect 0 plan train.json --device cuda --num-ranks 2 --json
python3 - <<'PY' || fail "plan --device cuda"
import json
plan, run = json.load(open("out")), json.load(open("whole/plan.json"))
assert plan["device"] == run["device"] == "cuda" and plan["ranks"] == run["ranks"], (plan, run)
for planned, measured in zip(plan["ranks"], json.load(open("whole/report.json"))["ranks"], strict=True):
    host = planned["host_bytes_peak"] + planned["pinned_bytes_peak"]
    assert planned["pinned_bytes_peak"] > (32 + 16) << 20, planned  # of files and of groups
    for want, got in ((planned["device_bytes_peak"], measured["device_bytes_peak"]), (host, measured["host_bytes_peak"])):
        assert want > 0 and abs(got / want - 1) <= 0.02, (planned, measured)
PY

# Over MPI, whose processes the ranks are: the bits of shared memory, and the numbers of one rank.
dslaunch --version | grep -q "MPI yes" && command -v mpirun > /dev/null || finish
expect 0 train.json --num-ranks 1 --device cuda --run-dir alone
for stage in 0 1 2 3; do
  timeout 120 mpirun --allow-run-as-root --oversubscribe -n 2 dslaunch train.json --device cuda \
    --run-dir "by-mpi-$stage" communication.backend=mpi "zero_optimization.stage=$stage" \
    zero_optimization.overlap_comm=$([ $stage = 0 ] && echo false || echo true) > out 2> err || fail "mpirun, stage $stage"
  expect_text out "through host memory"
  expect_text "by-mpi-$stage/logs/rank-1.log" "collectives over mpi"
  near "by-mpi-$stage" alone
done
cmp -s whole/final/model.safetensors by-mpi-3/final/model.safetensors || fail "the bits over MPI"
finish
