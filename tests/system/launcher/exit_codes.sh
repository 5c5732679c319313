# What goes wrong, and with which code and words it ends.
. "$(dirname "$0")/../launcher.sh"

expect 0 --version
expect 0 --help
expect 0 run --help
DSLAUNCH_RANKD="$bin/rankd" expect 0 plan --help
DSLAUNCH_RANKD="$bin/rankd" expect 0 generate --help

expect 2
expect 2 train.json --nonsense
expect 2 train.json --num-ranks 0
expect 2 train.json stray
expect 66 missing.json
expect_text err "missing.json"
expect 78 train.json train_batch_size=7 --num-ranks 2
expect 78 train.json zero_optimization.stagee=1
expect_text err "did you mean"
echo '{"train_batch_size": 8}' > incomplete.json
expect 78 incomplete.json
expect_text err "model: is needed to train"
echo '{"train_batch_size": 8,' > broken.json
expect 78 broken.json
expect_text err "broken.json:"
expect 2 train.json --launcher slurm
DSLAUNCH_RANKD=/nowhere/rankd expect 66 train.json
[ -e runs ] && fail "an error before the start left a run directory"

expect 0 check train.json --num-ranks 2
expect 78 check broken.json
expect 66 check missing.json
expect 2 check
expect 0 explain train.json
expect 0 explain train.json train_batch_size gradient_accumulation_steps=2 --num-ranks 2
expect 2 explain train.json one two
expect 0 schema
expect_text out '"zero_optimization"'
expect 2 schema extra
expect 78 elastic train.json
expect 2 elastic

DSLAUNCH_RANKD="$bin/rankd" expect 0 train.json --dry-run --num-ranks 4 --num-threads 1
expect_text out "rank 3"
expect_text out "micro-steps, 4 ranks"
DSLAUNCH_RANKD="$bin/rankd" expect 78 train.json --dry-run data.sequence_length=9
expect_text err "the model has 8 positions"
expect 66 train.json --resume required
expect_text err "--run-dir"
[ -e runs ] && fail "--dry-run or an error made a run directory"

expect 0 train.json --num-ranks 2
expect_text out "done: 5 steps"
for file in config.json metrics.jsonl metrics.csv report.json loss.svg logs/rank-0.log \
            logs/rank-1.log logs/dslaunch.log; do
  [ -s "runs/latest/$file" ] || fail "runs/latest/$file is missing or empty"
done
[ "$(wc -l < runs/latest/metrics.jsonl)" -eq 5 ] || fail "metrics.jsonl has not 5 lines"
[ "$(wc -l < runs/latest/metrics.csv)" -eq 6 ] || fail "metrics.csv has not 6 lines"
expect_text runs/latest/report.json '"exit_code": 0'
expect 0 train.json --num-ranks 1 --json
expect_text out '"world_size": 1'

FAKE_RANK="rank=1 at=2 do=data" expect 65 train.json
expect_text err "rank 1: corpus.bin: token 50000"
expect_text err '"event": "fault"'
expect_text runs/latest/report.json '"exit_code": 65'
FAKE_RANK="rank=1 at=2 do=crash steps=500" expect 139 train.json --max-restarts 0
expect_text err "rank 1 was killed by signal 11"
FAKE_RANK="rank=0 at=2 do=kill steps=500" expect 137 train.json --max-restarts 0
expect_text err "rank 0 was killed by signal 9"
FAKE_RANK="rank=1 at=2 do=exit7 steps=500" expect 1 train.json --max-restarts 0
expect_text err "rank 1 exited with code 7 without a report"
FAKE_RANK="rank=1 at=2 do=vanish steps=500" expect 1 train.json --max-restarts 0
expect_text err "rank 1 exited with code 0 without a report"
FAKE_RANK="rank=1 at=2 do=peer steps=500" expect 1 train.json --max-restarts 0
FAKE_RANK="rank=1 at=2 do=noise" expect 0 train.json
expect_text err "[rank 1] a warning"
expect_text runs/latest/logs/rank-1.log "a warning"
FAKE_RANK="steps=5000" expect 124 train.json --timeout 0.3
expect_text out "committed tag=global_step"
FAKE_RANK="steps=5000" expect 75 train.json --time-limit 3
expect_text out "saves and stops at"
expect_text out "--time-limit ends the job in "
expect_text out "committed tag=global_step"

finish
