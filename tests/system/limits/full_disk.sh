#!/usr/bin/env bash
# A disk that stays full at several saves in a row: the run waits for room and says so, goes on once there is some, and ends
# with 74 where none comes, without making the same steps again.
source "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
if ! unshare -rm true 2> /dev/null; then
  echo "SKIPPED: no user namespaces, so no small disk to fill"
  exit 77
fi
seq 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16}, "train": {"steps": 240, "save_every": 40},
 "train_batch_size": 4, "steps_per_print": 1000, "optimizer": {"type": "AdamW"}}
JSON
expect 0 train.json --num-ranks 1 --num-threads 1 --run-dir alone
mkdir small

# Room for two checkpoints and not for three, so that three in a row find none.
cat > full.sh <<'SCRIPT'
mount -t tmpfs -o size=4200k none small || exit 1
: > out
dslaunch train.json --num-ranks 1 --num-threads 1 --run-dir small/run "$@" > out 2> err &
launcher=$!
while kill -0 $launcher 2> /dev/null && ! grep -qs "waiting up to" out; do sleep 0.05; done
[ "$room" = comes ] && mount -o remount,size=64m small
wait $launcher
code=$?
cp small/run/report.json report.json
[ -e small/run/final ] && cp small/run/final/model.safetensors filled.safetensors
exit $code
SCRIPT
restarts() { sed -n 's/.*"restarts": \([0-9]*\).*/\1/p' report.json | head -1; }

room=never timeout 100 unshare -rm bash full.sh --wait-for-room 2s
[ $? -eq 74 ] || fail "no room: no exit code 74"
grep -qE "waiting up to 2.0s for room in .*small/run, then generation 2 from global_step[0-9]*" out || fail "nobody says what is waited for"
expect_text out "no room has come in 2 s (--wait-for-room)"
grep -q "there is room again" out && fail "the same steps were made again"

room=never timeout 100 unshare -rm bash full.sh --wait-for-room 0
[ $? -eq 74 ] || fail "no wait for room: no exit code 74"
grep -q "waiting up to" out && fail "room is waited for"
expect_text err "nobody waits for room (--wait-for-room)"

room=comes timeout 100 unshare -rm bash full.sh --wait-for-room 60s
[ $? -eq 0 ] || fail "room that came did not help"
expect_text out "there is room again: generation 2 with 1 rank"
[ "$(restarts)" = 1 ] || fail "$(restarts) restarts, expected 1"
cmp filled.safetensors alone/final/model.safetensors || fail "other weights"
finish
