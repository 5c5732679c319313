#!/usr/bin/env bash
# Bad input: one clear message, the right exit code, nothing left behind.
# usage: bad_input.sh BIN_DIR
set -u
bin=$1
work=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$work/small"; rm -rf "$work"' EXIT
cd "$work"
failed=0

head -c 60000 "$bin/dslaunch" | tr -d '\000' >corpus.txt
write_config() { # file, sed script
  sed "$2" >"$1" <<'JSON'
{
  "model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32,
            "vocab_size": 256, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
  "train": {"steps": 6, "save_every": 2},
  "train_batch_size": 8,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
  "zero_optimization": {"stage": 2}
}
JSON
}

expect() { # name, exit code, text in the output, command...
  local name=$1 code=$2 text=$3
  shift 3
  "$@" >"$name.out" 2>&1 </dev/null
  local got=$?
  if [ $got -ne "$code" ] || ! grep -q -- "$text" "$name.out"; then
    echo "FAIL $name: exit $got (expected $code), output should mention: $text"
    sed 's/^/    /' "$name.out" | tail -8
    failed=1
  fi
  [ "$got" -ne "$code" ] || echo "ok $name: $(grep -m 1 -o "error: .*" "$name.out")"
  if pgrep -f "$bin/rankd" >/dev/null; then
    sleep 1
    pgrep -f "$bin/rankd.*$work" >/dev/null && { echo "FAIL $name: a rank is left"; failed=1; }
  fi
}

write_config unknown.json 's/"steps"/"stepz"/'
expect unknown_key 78 'unknown.json:.*stepz' "$bin/dslaunch" unknown.json --run-dir r1
[ -e r1 ] && { echo "FAIL unknown_key: it made a run directory"; failed=1; }

write_config batch.json 's/"train_batch_size": 8/"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3/'
expect batch_sizes 78 'batch' "$bin/dslaunch" batch.json --num-ranks 2 --run-dir r2

write_config missing.json 's/corpus.txt/nowhere.txt/'
expect missing_data 66 'nowhere.txt' "$bin/dslaunch" missing.json --num-ranks 2 --run-dir r3

# An llm.c shard whose header announces more tokens than there are.
python3 -c '
import struct, sys
header = struct.pack("<256i", 20240520, 1, 5000, *([0] * 253))
sys.stdout.buffer.write(header + b"\x01\x00" * 4000)' >truncated.bin
write_config truncated.json 's/corpus.txt/truncated.bin/'
expect truncated_data 65 'truncated.bin' "$bin/dslaunch" truncated.json --num-ranks 2 --run-dir r4

write_config vocabulary.json 's/"vocab_size": 256/"vocab_size": 60/'
expect token_id 65 'corpus.txt' "$bin/dslaunch" vocabulary.json --num-ranks 2 --run-dir r5

write_config good.json ''
expect good 0 'done: 6 steps' "$bin/dslaunch" good.json --num-ranks 2 --run-dir r6

# One flipped byte in every tag: refused; in the newest only: the one before it is used.
flip() { printf '\377' | dd of="$1" bs=1 seek=5000 conv=notrunc 2>/dev/null; }
cp -r r6 r7
flip r7/checkpoints/global_step6/rank-00000.pieces
expect corrupt_newest 0 'done: 8 steps' "$bin/dslaunch" good.json train.steps=8 --num-ranks 2 --run-dir r7
cp -r r6 r8
for tag in r8/checkpoints/global_step*; do flip "$tag/rank-00001.pieces"; done
expect corrupt_all 77 'rank-00001.pieces' "$bin/dslaunch" good.json train.steps=8 --num-ranks 2 --run-dir r8
expect resume_required 66 'no committed tag' "$bin/dslaunch" good.json --num-ranks 2 --run-dir r9 --resume required

# A rank that is killed: named, with the signal; the others stop.
write_config long.json 's/"steps": 6/"steps": 100000/'
"$bin/dslaunch" long.json --num-ranks 2 --run-dir r10 >killed.out 2>&1 &
launcher=$!
for _ in $(seq 100); do grep -q '^step 1' killed.out && break; sleep 0.1; done
pkill -9 -P $launcher -n rankd
wait $launcher
code=$?
if [ $code -eq 0 ] || ! grep -q 'signal 9' killed.out; then
  echo "FAIL dead_rank: exit $code"
  tail -5 killed.out
  failed=1
fi

# A disk with room for the logs but not for a checkpoint.
mkdir small
if mount -t tmpfs -o size=256k none small 2>/dev/null; then
  mounted=yes
  expect full_disk 74 'No space left\|free' "$bin/dslaunch" good.json --num-ranks 2 --run-dir small/run
  find small -name '*.tmp*' | grep . && { echo "FAIL full_disk: a partial file is left"; failed=1; }
else
  echo "full disk: not tried, mounting a tmpfs needs root"
fi
exit $failed
