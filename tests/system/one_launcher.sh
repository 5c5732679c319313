# One launcher works in a run directory at a time; the next one is told who.
. "$(dirname "$0")/launcher.sh"

FAKE_RANK="steps=100000 step_ms=10" start
expect 75 train.json --run-dir run
expect_text err "dslaunch, pid $launcher on $(hostname)"
expect_text err "choose another --run-dir"
kill -STOP "$launcher"  # a launcher that is stopped is there all the same
expect 75 train.json --run-dir run --resume never
expect_text err "pid $launcher on"
kill -CONT "$launcher"
# From what looks like another host: another name, other processes.
if unshare -fup --mount-proc true 2> /dev/null; then
  timeout 60 unshare -fup --mount-proc bash -c 'hostname elsewhere; dslaunch train.json --run-dir run' > out 2> err
  [ $? -eq 75 ] || fail "a second launcher from another host was let in"
  expect_text err "pid $launcher on $(hostname)"
fi
steps_before=$(wc -l < run/metrics.jsonl)
wait_until "more steps of the first" sh -c "[ \$(wc -l < run/metrics.jsonl) -gt $steps_before ]"
grep -q restart out && fail "the first was disturbed"

# One that was killed is followed at once; its number is not used again.
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
FAKE_RANK="steps=3" expect 0 train.json --run-dir run
expect_text run/report.json '"generation": 2,'
[ "$(echo run/logs/generation.*)" = run/logs/generation.2 ] || fail "claims of generations: $(echo run/logs/generation.*)"

# One whose lease another has taken over, by whatever mistake, ends its ranks and writes nothing more.
FAKE_RANK="steps=100000 step_ms=10" start
sed -i 's/"token": "[0-9a-f]*"/"token": "00000000000000000000000000000000"/' run/lease.json
before=$(stat -c %Y run/report.json 2> /dev/null)
wait_at_most 20 "the end of the one that lost its lease" gone "$launcher"
expect_end 75
gone "${ranks[@]}" || fail "its ranks are left"
expect_text err "has taken this run over"
[ "$(stat -c %Y run/report.json 2> /dev/null)" = "$before" ] || fail "it wrote a report into another's run"

# Many at once: one of them trains.
rm -rf run
for i in 1 2 3 4 5 6; do
  FAKE_RANK="steps=30 step_ms=10" dslaunch train.json --run-dir run > out.$i 2>&1 &
  launchers[i]=$!
done
ended=""
for i in 1 2 3 4 5 6; do
  wait "${launchers[i]}"
  ended="$ended $?"
done
[ "$(tr ' ' '\n' <<< "$ended" | sort | uniq -c | xargs)" = "1 1 0 5 75" ] ||
  [ "$(tr ' ' '\n' <<< "$ended" | grep -c '^0$')" -eq 1 ] || fail "six at once ended with$ended"
[ "$(wc -l < run/metrics.jsonl)" -eq 30 ] || fail "metrics of more than one run"

finish
