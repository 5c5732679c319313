# Machines with GPUs, played by tests/support/fake_nvml: what is told of them, who gets which, and what is refused.
. "$(dirname "$0")/launcher.sh"
export LD_LIBRARY_PATH="$bin/libraries/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" DS_FAKE_NVML="$scratch/gpus"
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
# The ranks say which GPU they see, into their logs.
cat > rank.sh <<EOF
#!/bin/sh
[ "\$1" = --from-stdin ] && echo "sees GPU \$CUDA_VISIBLE_DEVICES"
exec "$bin/fake_rank" "\$@"
EOF
chmod +x rank.sh
export DSLAUNCH_RANKD="$PWD/rank.sh" FAKE_RANK="steps=3"

two_gpus() {  # two_gpus [lines about the second...]
  printf '%s\n' "driver 580.82.07" \
    "gpu GPU-0a1b NVIDIA H200" "memory 150000000000 149000000000" "utilization 7" "temperature 40" "ecc 0" \
    "gpu GPU-2c3d NVIDIA H200" "memory 150000000000 149000000000" "utilization 97" "temperature 41" "slowdown 92" \
    "$@" > gpus~
  mv gpus~ gpus
}
sees() {  # sees <GPU of rank 0> <of rank 1>...
  local rank=0 gpu
  for gpu in "$@"; do
    grep -qxF "sees GPU $gpu" "run/logs/rank-$rank.log" || fail "rank $rank: $(head -3 "run/logs/rank-$rank.log")"
    rank=$((rank + 1))
  done
  [ -e "run/logs/rank-$rank.log" ] && fail "there is a rank $rank"
}
train() {  # train <code> <words...>
  local want=$1
  shift
  rm -rf run
  expect "$want" train.json --run-dir run "$@"
}

two_gpus
expect 0 env --json
cp out env.json
cuda=$(python3 - <<'PY'
import json
said = json.load(open("env.json"))
gpus = said["gpus"]
assert gpus["count"] == 2 and gpus["nvidia_driver"] == "580.82.07" and gpus["gpu_1"] == "NVIDIA H200", gpus
assert "GPU-2c3d" in gpus["gpu_1_note"] and "97 % busy" in gpus["gpu_1_note"], gpus
build = said["build"]
use = "used by ranks" if build["cuda"] else "not used: this build"
assert use in gpus["gpu_0_note"], gpus
print("gpus" if build["cuda"] else "emulated" if build["cuda_kernels"] == "emulated" else "none")
PY
) || fail "env --json: $(head -c 2000 env.json)"
two_gpus lost
CUDA_VISIBLE_DEVICES=1 expect 0 env
expect_text out "not used: CUDA_VISIBLE_DEVICES leaves it out"
expect_text out "not used: GPU is lost"
two_gpus

if [ "$cuda" != gpus ]; then
  train 0 --num-ranks 2
  sees "" ""
  if [ "$cuda" = none ]; then
    expect_text out "ranks compute on the CPU although there are GPUs"
    train 78 --device cuda
    expect_text err "DS_WITH_CUDA"
  else
    train 0 --num-ranks 4 --device cuda
    expect_text out "emulated device"
  fi
  finish
fi

echo "who gets which"
train 0
expect_text out "note: ranks compute on GPUs"
sees 0 1
CUDA_VISIBLE_DEVICES=GPU-2c,0 train 0
sees GPU-2c 0
train 0 --device cpu --num-ranks 2
sees "" ""
train 69 --num-ranks 4
expect_text err "is to have a GPU for each of its 4 ranks (slots 0,1,2,3), and has 2: 0,1"
train 0 --num-ranks 4 --share-gpus
expect_text out "4 ranks share 2 GPUs"
sees 0 1 0 1
DS_FAKE_NVML=/dev/null train 69 --device cuda
expect_text err "this machine has no GPU to use"

echo "what is refused"
two_gpus "ecc 3"
train 69
expect_text err "GPU 1 (NVIDIA H200) has counted 3 errors of its memory that ECC could not correct"
[ -e run ] && fail "refused, and yet begun"
train 0 --num-ranks 1  # which the other GPU does
expect 69 preflight --num-ranks 2
expect_text out "GPU 1 (NVIDIA H200)"
two_gpus "temperature 95"
expect 69 preflight --num-ranks 2
expect_text out "slows down from 92 on"
two_gpus "process 4711 9000000000"
expect 0 preflight --num-ranks 2
expect_text out "processes 4711 have 8.4 GiB there"

echo "a run and its GPUs"
two_gpus
FAKE_RANK="steps=2000 step_ms=20 rank=1 at=300 do=abort" start --max-restarts 0
shown() { dslaunch status run > status 2>&1 && grep -qF "1: 954 MiB of 140 GiB, 97 % busy, 41 degrees C" status; }
wait_until "the figures of GPU 1" shown || cat status
dslaunch status run --json > status.json
python3 -c 'import json
ranks = json.load(open("status.json"))["ranks"]
assert [rank["gpu"]["uuid"] for rank in ranks] == ["GPU-0a1b", "GPU-2c3d"], ranks
assert ranks[0]["gpu"]["memory_used"] == 10**9 and ranks[0]["gpu"]["power"] is None, ranks' || fail "status --json"
two_gpus "xid 79"
wait $launcher
expect_text err "GPU 1 (NVIDIA H200)"
expect_text err "Xid 79 (it has fallen off the bus)"

echo "hosts"
two_gpus
# The starters of agents, in their places: what comes before our own path is theirs.
mkdir starters
for name in ssh mpirun srun; do
  printf '#!/bin/sh\nwhile [ "$1" != "%s" ]; do shift; done\n%s\nexec "$@"\n' "$bin/dslaunch" \
    "export SSH_CONNECTION='127.0.0.1 4000 127.0.0.1 22'" > "starters/$name"
  chmod +x "starters/$name"
done
printf 'one slots=1\ntwo slots=2\n' > hosts
sed -i 's/"train_batch_size": 8/"train_batch_size": 12/' train.json
for launcher in ssh mpi slurm; do
  PATH="$PWD/starters:$PATH" train 0 --hostfile hosts --launcher "$launcher" --master-addr 127.0.0.1
  sees 0 0 1
done
sed -i 's/"train_batch_size": 12/"train_batch_size": 8/' train.json

echo "started by others"
if command -v mpirun > /dev/null; then
  rm -rf run
  each="-n 1 -x DS_FAKE_NVML -x LD_LIBRARY_PATH"
  timeout 60 mpirun --allow-run-as-root --oversubscribe \
    $each -x CUDA_VISIBLE_DEVICES=1 dslaunch train.json --run-dir run : \
    $each -x CUDA_VISIBLE_DEVICES=0 dslaunch train.json --run-dir run > out 2> err || fail "mpirun dslaunch"
  sees 1 0
fi
rm -rf run
as_task() {  # as_task <number> <its GPU>: as srun starts one of two
  SLURM_JOB_ID="$$" SLURM_STEP_ID=0 SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 \
    SLURM_STEP_TASKS_PER_NODE=2 CUDA_VISIBLE_DEVICES=$2 timeout 60 dslaunch train.json --run-dir run > "out$1" 2> "err$1"
}
as_task 1 0 &
as_task 0 1 || fail "srun dslaunch: $(cat err0)"
wait $!
sees 1 0
finish
