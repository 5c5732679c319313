# Ranks that are killed, in all kinds of ways: the run goes on, and ends as if nothing had been.
. "$(dirname "$0")/launcher.sh"

# Ranks without an engine: when a restart is tried, and what is said.
FAKE_RANK="rank=1 at=4 epoch=1 do=kill steps=20" expect 0 train.json --run-dir once
expect_text out "restart 1 of 3: rank 1 was killed by signal 9"
expect_text err '"action": "restart"'
expect_text once/report.json '"restarts": 1'
[ "$(wc -l < once/metrics.jsonl)" -eq 20 ] || fail "a step stands twice in the metrics"
FAKE_RANK="rank=1 at=4 do=data steps=20" expect 65 train.json
grep -q restart out && fail "a rank's own error was retried"
FAKE_RANK="rank=0 at=1 do=kill steps=20" expect 137 train.json
expect_text err "3 times in a row"
FAKE_RANK="rank=1 at=4 do=kill steps=20" expect 76 train.json --max-restarts 1 --run-dir used_up
expect_text used_up/report.json '"exit_code": 76'
expect_text err "all 1 restarts are used up"

# A rank that beats but is stuck is named, with the collective it did not enter; a stopped one, too.
FAKE_RANK="rank=1 at=4 epoch=1 do=stuck steps=20" expect 0 train.json --hang-after 2 --num-ranks 4
expect_text err "rank 1 hangs: no progress for"
expect_text err "it has not entered all_gather #7 of data, where rank 0 waits"
FAKE_RANK="rank=1 at=4 epoch=1 do=hang steps=20" expect 0 train.json
expect_text err "rank 1 stopped answering"

# One that stands still before it has joined is killed and started again, also in the first epoch; when all of them
# do, always, that is the end.
FAKE_RANK="late=$PWD/one steps=20" expect 0 train.json --num-ranks 2 --join-timeout 4 --run-dir late
expect_text out "restart 1 of 3: rank "
expect_text out "hangs before it has joined: its process is there, and has not been heard for 4 s"
expect_text late/report.json '"restarts": 1'
FAKE_RANK="late=$PWD/two steps=20" expect 69 train.json --num-ranks 2 --join-timeout 2 --max-restarts 0
expect_text err "hangs before it has joined"
FAKE_RANK="late=always" expect 69 train.json --num-ranks 2 --join-timeout 1
expect_text err "3 times in a row"
for pid in $(pgrep -fx "$bin/fake_rank --from-stdin"); do
  [ "$(readlink "/proc/$pid/cwd")" = "$PWD" ] && fail "a rank that stood still was left behind"
done

# A stop while the launcher waits before a restart is not made to wait.
: > out
FAKE_RANK="rank=1 at=4 do=kill steps=20" dslaunch train.json > out 2> err &
launcher=$!
wait_until "a wait of a second" grep -q "restart 2 of 3" out
kill -TERM "$launcher"
expect_end 143

# The engine: three killings at different places, equal weights.
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 60, "save_every": 10}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON
expect 0 train.json --num-ranks 2 --run-dir undisturbed
: > out
dslaunch train.json --num-ranks 2 --run-dir disturbed > out 2> err &
launcher=$!
for kills in 1 2 3; do
  wait_until "$((kills * 15)) steps" sh -c "[ \$(cat disturbed/metrics.jsonl 2> /dev/null | wc -l) -gt $((kills * 15)) ]"
  kill -KILL "$(pgrep -P "$launcher" | sed -n "$((kills % 2 + 1))p")"
  wait_until "restart $kills" grep -q "restart $kills of" out
done
expect_end 0
cmp undisturbed/final/model.safetensors disturbed/final/model.safetensors || fail "other weights"
# Step, loss, norm and rate are equal; the pace, the time and who made a step may differ.
for run in undisturbed disturbed; do
  sed -E 's/, "(tokens_per_s|time|generation)": [^,}]*//g' $run/metrics.jsonl > $run.metrics
done
cmp undisturbed.metrics disturbed.metrics || fail "other metrics"
wait_until "the end of its shared memory" no_stray_shared_memory
find disturbed -name '*.tmp.*' -o -name '*.old.*' | grep . && fail "temporary files left behind"
finish
