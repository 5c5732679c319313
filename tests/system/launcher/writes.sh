# What the launcher writes fails, is late or blocks: training goes on, and nothing of it is lost in silence.
. "$(dirname "$0")/../launcher.sh"

lines() { wc -l < "$1" 2> /dev/null || echo 0; }

# A reader that takes nothing, on both outputs. 12000 steps are far more than pipes and we hold; a rank that dies in between
# is noticed, restarted, and all of it is in the metrics.
mkfifo taken
FAKE_RANK="steps=12000 step_ms=0 rank=0 at=6000 epoch=1 do=kill" \
  dslaunch train.json --run-dir unread steps_per_print=1 > taken 2>&1 &
launcher=$!
exec 9< taken
wait_until "the end of all steps" grep -qs '"step": 12000,' unread/metrics.jsonl
expect_text unread/logs/dslaunch.log "restart 1 of 3: rank 0 was killed by signal 9"
[ "$(lines unread/metrics.jsonl)" -eq 12000 ] || fail "metrics have $(lines unread/metrics.jsonl) lines"
cat <&9 > said
expect_end 0
exec 9<&-
grep -q "lines are not shown here" said || fail "nobody says that lines are missing"
grep -q "^done: 12000 steps" said || fail "the closing words are missing"

# The same with a reader that never comes back: signals are heard, and the run ends.
FAKE_RANK="steps=100000 step_ms=1" dslaunch train.json --run-dir deaf steps_per_print=1 > taken 2>&1 &
launcher=$!
exec 9< taken
wait_until "many steps" sh -c '[ "$(cat deaf/metrics.jsonl 2> /dev/null | wc -l)" -gt 2000 ]'
kill -INT "$launcher"
wait_at_most 30 "an end although nobody reads" gone "$launcher"
expect_end 75
exec 9<&-
expect_text deaf/report.json '"exit_code": 75'

# Names that are taken by something else are refused before anything runs; nothing hangs.
for kind in fifo folder; do
  mkdir -p taken_$kind
  [ $kind = fifo ] && mkfifo taken_$kind/metrics.jsonl || mkdir taken_$kind/metrics.jsonl
  expect 74 train.json --run-dir taken_$kind
  expect_text err "taken_$kind/metrics.jsonl is a"
done
mkfifo figures
expect 2 train.json --run-dir figures_run --metrics-textfile figures
expect_text err "--metrics-textfile"
[ -p figures ] || fail "the FIFO was replaced"

if unshare -rm true 2> /dev/null; then
  mkdir small
  # A disk that is full for some seconds: every step stands in the metrics afterwards.
  cat > filling.sh <<'SCRIPT'
mount -t tmpfs -o size=2m none small || exit 1
dslaunch train.json --run-dir small/run &
until [ -s small/run/metrics.jsonl ]; do sleep 0.01; done
cat /dev/zero > small/filler 2> /dev/null
sleep 4
rm small/filler
wait %1
code=$?
wc -l < small/run/metrics.jsonl > rows
cp small/run/report.json report.json
exit $code
SCRIPT
  FAKE_RANK="steps=6000 step_ms=1" timeout 60 unshare -rm bash filling.sh > out 2> err
  [ $? -eq 0 ] || fail "a disk that was full for some seconds ended the run"
  expect_text out "No space left on device; training goes on"
  expect_text out "metrics.jsonl is written again"
  [ "$(cat rows)" -eq 6000 ] || fail "the metrics have $(cat rows) of 6000 steps"
  expect_text report.json '"exit_code": 0'
  # One that stays full: the run ends as it should, and says what is missing.
  sed '/sleep 4/,/rm small/d; s/^cp .*/cp small\/run\/lease.json ./' filling.sh > full.sh
  FAKE_RANK="steps=6000 step_ms=1" timeout 60 unshare -rm bash full.sh > out 2> err
  [ $? -eq 0 ] || fail "a disk that stays full ended the run"
  expect_text out "metrics.jsonl could not be written to the end: "
  expect_text out "report.json could not be written to the end: "
  expect_text lease.json '"over": true, "exit_code": 0'
else
  echo "skipped: no user namespaces, so no small disk to fill"
fi

finish
