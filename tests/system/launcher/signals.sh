# Ctrl-C and its relatives: save and exit 75, or kill at once; a resumed run continues its metrics.
. "$(dirname "$0")/../launcher.sh"

for signal in INT TERM USR1 HUP; do
  FAKE_RANK="steps=5000" start
  kill -$signal "$launcher"
  expect_end 75
  expect_text out "committed tag=global_step"
  expect_text out "--run-dir run"
  expect_text run/report.json '"exit_code": 75'
  gone "${ranks[@]}" || fail "ranks survived $signal"
done

FAKE_RANK="steps=5000 ignore_stop=1" start
kill -INT "$launcher"
wait_until "the notice" grep -q "Ctrl-C again" out
kill -INT "$launcher"
expect_end 130
gone "${ranks[@]}" || fail "ranks survived the second Ctrl-C"

FAKE_RANK="steps=200" start
kill -USR2 "$launcher"
expect_end 0
expect_text out "generation 1 running"

FAKE_RANK="steps=8" expect 0 train.json --run-dir run
[ "$(wc -l < run/metrics.jsonl)" -eq 8 ] || fail "metrics of the earlier run were not replaced"

finish
