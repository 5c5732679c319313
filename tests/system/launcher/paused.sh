# A launcher that stands still (SIGSTOP, as Ctrl-Z or a debugger does it) costs nothing: no restart, no step, no blame.
. "$(dirname "$0")/../launcher.sh"

still() {  # still <seconds>: stops the launcher for so long
  kill -STOP "$launcher"
  sleep "$1"
  kill -CONT "$launcher"
}

# Ranks that finish meanwhile are not called dead; every step stands in the metrics.
FAKE_RANK="steps=200 step_ms=5" start --num-ranks 2 --max-restarts 0
still 4
expect_end 0
[ "$(wc -l < run/metrics.jsonl)" -eq 200 ] || fail "metrics have $(wc -l < run/metrics.jsonl) of 200 steps"
expect_text out "dslaunch itself stood still for"
expect_text out "done: 200 steps"

# Longer than any lease, with training that goes on behind it.
FAKE_RANK="steps=4000 step_ms=2" start --num-ranks 2 --max-restarts 0
still 7
expect_end 0
[ "$(wc -l < run/metrics.jsonl)" -eq 4000 ] || fail "metrics have $(wc -l < run/metrics.jsonl) of 4000 steps"

# A rank that dies meanwhile is still found, and it alone.
FAKE_RANK="steps=4000 step_ms=2" start --num-ranks 2 --max-restarts 0
kill -STOP "$launcher"
kill -KILL "${ranks[1]}"
sleep 4
kill -CONT "$launcher"
expect_end 137
expect_text err "rank 1 was killed by signal 9"
finish
