# What tensor-parallel ranks of DeepSpeed and of Megatron-DeepSpeed saved, through the whole program: converted, gone on with,
# shown; a rank that is missing or a file that ends early is one error that names it, and leaves nothing.
here=$(dirname "$(readlink -f "$0")")
. "$here/../launcher.sh"
unset DSLAUNCH_RANKD
golden=$(readlink -f "$here/../../golden/deepspeed")

unpacked() {  # unpacked <archive>: its folder
  python3 -m zipfile -e "$golden/$1.zip" "$1" || fail "$1: cannot be unpacked"
}
same() {  # same <folder> <file>: each tensor has the CRC-32 that the file says
  python3 - "$1/model.safetensors" "$2" <<'PY' || fail "$1: other weights than $2 says"
import json, struct, sys, zlib
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + length])
head.pop("__metadata__", None)
body = data[8 + length:]
got = {name: zlib.crc32(body[slice(*entry["data_offsets"])]) for name, entry in head.items()}
sys.exit(got != json.load(open(sys.argv[2])))
PY
}
refused() {  # refused <code> <text in the error> <words...>
  local code=$1 text=$2
  shift 2
  expect "$code" "$@"
  grep -q -- "$text" err || fail "$*: err does not match: $text"
  [ "$(grep -c '^error: ' err)" -eq 1 ] || fail "$*: not exactly one error"
  [ -e never ] || [ -e never.partial ] && fail "$*: left something"
  return 0
}

for name in tensor_zero0_fp32 tensor_zero1_bf16 tensor_zero2_fp32 tensor_zero3_fp32 tensor_untold; do
  unpacked $name
  expect 0 convert $name out_$name
  same out_$name $name/weights.json
done
for name in megatron_gpt2 megatron_gpt2_version0 megatron_llama; do
  unpacked $name
  expect 0 convert $name out_$name
  same out_$name $name/sums.json
done
for name in pipeline_tensor_fp32 pipeline_tensor_told_bf16; do
  unpacked $name
  expect 0 convert $name out_$name
  same out_$name $name/gpt2.json
done
expect 0 inspect tensor_zero1_bf16/global_step3/mp_rank_01_model_states.pt
expect_text out "lm_head.weight"

# Its training goes on.
python3 - <<'PY' || fail "no tokens to train on"
import struct
count = 8 * 4 * 8 + 1
tokens = [(p * p * 7 + p * 3 + p // 5) % 64 for p in range(count)]
with open("tokens.bin", "wb") as out:
    out.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
    out.write(struct.pack(f"<{count}H", *tokens))
PY
cat > train.json <<'JSON'
{"model": "out_tensor_zero3_fp32", "data": {"train": ["tokens.bin"], "sequence_length": 8, "order": "sequential"},
 "train": {"steps": 8, "resume_from": "tensor_zero3_fp32"}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
                                           "torch_adam": true}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 6,
                                              "warmup_type": "linear"}},
 "zero_optimization": {"stage": 1}}
JSON
expect 0 check train.json --num-ranks 2
expect_text out "(DeepSpeed 0.19.8, ZeRO stage 3, 2 ranks, tensor parallel over 2)"
expect 0 train.json --run-dir run --num-ranks 2
expect_text out "resumed step=3 from=$PWD/tensor_zero3_fp32/global_step3"
python3 - <<'PY' || fail "other losses than DeepSpeed's"
import json, sys
wanted = json.load(open("tensor_zero3_fp32/losses.json"))["tensor_zero3_fp32"][3:]
got = [line["loss"] for line in map(json.loads, open("run/metrics.jsonl")) if "loss" in line]
sys.exit(len(got) != len(wanted) or any(abs(a - b) > 1e-5 for a, b in zip(got, wanted)))
PY

second=tensor_zero1_bf16/global_step3/mp_rank_01_model_states.pt
mv $second kept
refused 66 "$second: is missing" convert tensor_zero1_bf16 never
head -c 9000 kept > $second
refused 65 "$second" convert tensor_zero1_bf16 never
mv kept $second
optimizer=tensor_zero1_bf16/global_step3/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt
cp tensor_zero3_fp32/global_step3/zero_pp_rank_0_mp_rank_01_optim_states.pt $optimizer
refused 65 "mp_rank_01.*zero_stage is 3, but 1 in" convert tensor_zero1_bf16 never
refused 65 "has shape .64, 8." convert megatron_gpt2 never --config out_tensor_zero0_fp32

finish
