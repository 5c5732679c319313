# Whoever is killed, nothing is left: no process, no shared memory, no socket, no temporary file.
. "$(dirname "$0")/../launcher.sh"

leftovers() {
  find "$scratch" -name '.*' -type f -o -name '*.tmp.*' -o -type s
}
before=$(leftovers)

for round in 1 2 3; do
  FAKE_RANK="steps=50000 ignore_stop=1" start --num-ranks 4
  [ "${#ranks[@]}" -eq 4 ] || fail "expected 4 ranks, found ${#ranks[@]}"
  kill -KILL "$launcher"
  wait "$launcher" 2>/dev/null
  wait_until "the ranks of a killed launcher to end" gone "${ranks[@]}"

  FAKE_RANK="steps=50000 ignore_stop=1" start --num-ranks 4 --max-restarts 0
  kill -KILL "${ranks[$round]}"
  expect_end 137
  expect_text err "was killed by signal 9"
  gone "${ranks[@]}" || fail "ranks outlived the launcher"
done

# Killed while ranks are still starting.
for pause in 0 0.002 0.005 0.01 0.02 0.05; do
  : > out
  FAKE_RANK="steps=50000" dslaunch train.json --run-dir run --num-ranks 4 > out 2> err &
  launcher=$!
  sleep $pause
  mapfile -t ranks < <(pgrep -P "$launcher")
  kill -KILL "$launcher"
  wait "$launcher" 2>/dev/null
  wait_until "the ranks of an early killed launcher to end" gone "${ranks[@]}"
done
wait_until "every rank of this test to end" \
  bash -c '! pgrep -f "^$0 --from-stdin" | while read -r pid; do readlink "/proc/$pid/cwd"; done |
           grep -qxF "$1"' "$DSLAUNCH_RANKD" "$scratch"

# A stopped rank is killed, too.
FAKE_RANK="rank=1 at=2 do=hang steps=5" expect 1 train.json --max-restarts 0
expect_text err "rank 1 stopped answering"

[ "$(leftovers)" = "$before" ] || fail "left behind: $(leftovers)"
wait_until "the end of their shared memory" no_stray_shared_memory
finish
