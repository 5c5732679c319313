# `dslaunch io` and `dslaunch nvme-tune` on the disk of the test: figures, the section to paste, files, and refusals.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
mkdir disk
nothing_left() { [ -z "$(ls -A "$1")" ] || fail "left in $1: $(ls -A "$1")"; }
json() {  # json <file> <expression of the document d>
  python3 -c "import json, sys; d = json.load(open(sys.argv[1])); assert $2, d" "$1" 2> why || {
    fail "$1: not so: $2"
    tail -1 why
  }
}

# Speeds of each engine, as words and as JSON alone, which is all that standard output has.
expect 0 io --folder disk --io-size 2M --loops 1
expect_text out "Task Write Speed = "
expect_text out "E2E Write Latency = "
for engine in aio threads; do
  expect 0 io --folder disk --io-size 2M --read --validate --block-size 128K --io-parallel 2 --engine $engine --json
  json out 'd["operation"] == "read" and d["bytes"] == 2 << 20 and d["loops"] == 3 and d["e2e_gb_per_s"] > 0'
done
expect 0 io --folder disk --folder . --multi-process 2 --io-size 64K --different-file-each-iteration --json
json out 'd["bytes"] == 4 << 16'

# A file system without O_DIRECT is measured, and it is said what the figures are.
if [ -w /dev/shm ] && ! dd if=/dev/null of=/dev/shm/dslaunch-direct-$$ oflag=direct 2> /dev/null; then
  expect 0 io --folder /dev/shm --io-size 1M --loops 1 --json
  json out 'd["bytes"] == 1 << 20'
  expect_text err "note: /dev/shm: its file system refuses O_DIRECT"
fi
rm -f /dev/shm/dslaunch-direct-$$

# The tuner: a quarter of the settings, a table, the section, its logs; `check` takes what it says.
expect 0 nvme-tune --nvme-dir disk --io-size 256K --loops 1 --log-dir logs
expect_text out '"thread_count"'
expect_text err "64 settings, 16 trials"
json logs/results.json 'len(d["trials"]) <= 16 and d["aio"] in [t["aio"] for t in d["trials"]]'
grep -q "</svg>" logs/speeds.svg || fail "no picture"
python3 - <<'PY' || fail "no section to paste"
import json
train = json.load(open("train.json"))
train["aio"] = json.load(open("logs/results.json"))["aio"]
json.dump(train, open("tuned.json", "w"))
PY
seq 1000 > corpus.txt
expect 0 check tuned.json
echo '{"block_size": ["64K"], "queue_depth": [4], "sequential_requests": [false], "single_submit": [false],
       "io_parallel": [1, 2]}' > sweep.json
expect 0 nvme-tune --nvme-dir disk --io-size 256K --loops 1 --no-write --sweep-config sweep.json --exhaustive --log-dir '' --json
json out 'len(d["trials"]) == 2 and d["write_gb_per_s"] is None and d["read_gb_per_s"] > 0'

# One clear error each, and nothing is left.
expect 66 io --folder nowhere --io-size 1M
expect_text err "nowhere"
expect 2 io --folder disk --io-size 1000
expect_text err "a multiple of 4096"
expect 2 io --io-size 1M
expect 78 io --folder disk --io-size 1M --engine torch_io
expect 78 io --folder disk --io-size 1M --use-gds
expect_text err "cuFile"
expect 2 nvme-tune --nvme-dir disk --no-read --no-write
echo '{"queue_depths": [4]}' > sweep.json
expect 78 nvme-tune --nvme-dir disk --sweep-config sweep.json
expect_text err "sweep.json:1:2: queue_depths is no axis"
expect 2 io --folder disk --io-size 1M --validate --json --folder-to-device-mapping disk:0

# What ends it leaves nothing, either.
: > out
dslaunch io --folder disk --io-size 32M --loops 100000 > out 2> err &
sleep 0.5
kill -KILL $(pgrep -f "io --folder disk --io-size 32M") 2> /dev/null
wait
nothing_left disk
finish
