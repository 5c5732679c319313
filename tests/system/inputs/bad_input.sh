# Bad files: one clear message that names the place, the right exit code, and the older tag where the
# newest is damaged. Stops, kills and full disks: engine_stops.sh.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD

seq 1 20000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 6, "save_every": 2}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON

refused() { # code, text in the error, words...
  local code=$1 text=$2
  shift 2
  expect "$code" "$@"
  grep -q -- "$text" err || fail "err does not match: $text"
}

sed 's/"steps"/"stepz"/' train.json > unknown.json
refused 78 'unknown.json:3:.*stepz.*"steps"' unknown.json --run-dir unknown
[ -e unknown ] && fail "a refused configuration made a run directory"
refused 78 'batch sizes do not agree' train.json +train_micro_batch_size_per_gpu=3 --num-ranks 2

# An llm.c shard whose header announces more tokens than there are.
python3 -c '
import struct, sys
header = struct.pack("<256i", 20240520, 1, 5000, *([0] * 253))
sys.stdout.buffer.write(header + b"\x01\x00" * 4000)' > truncated.bin
refused 65 'truncated.bin.*5000 tokens' train.json 'data.train=["truncated.bin"]'
refused 78 'data.tokenizer: byte has 256 tokens, but .*vocab_size is 40' train.json model.vocab_size=40
python3 -c '
import struct, sys
header = struct.pack("<256i", 20240520, 1, 4000, *([0] * 253))
sys.stdout.buffer.write(header + b"\x39\x00" * 4000)' > ids.bin
refused 65 'ids.bin at byte .*id 57 is outside the vocabulary of 40' train.json 'data.train=["ids.bin"]' model.vocab_size=40
refused 66 'no committed tag' train.json --run-dir fresh --resume required

# A damaged newest tag: said so, and the one before it serves.
expect 0 train.json --run-dir run
printf '\377' | dd of=run/checkpoints/global_step6/rank-00000.pieces bs=1 seek=5000 conv=notrunc 2> /dev/null
expect 0 train.json train.steps=8 --run-dir run
grep -q 'global_step6.*corrupt' run/logs/rank-0.log || fail "the damaged tag was passed over in silence"

finish
