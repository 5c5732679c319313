#!/usr/bin/env bash
# Started by mpirun, once for each rank, on this machine: mpirun -n 4 dslaunch train.json.
command -v mpirun > /dev/null || { echo "SKIPPED: mpirun is missing"; exit 77; }
source "$(dirname "$0")/../launcher.sh"

many=(mpirun --allow-run-as-root --oversubscribe)
nothing_left() {
  local pid
  for pid in $(pgrep -x dslaunch; pgrep -x fake_rank); do
    [ "$(readlink "/proc/$pid/cwd" 2> /dev/null)" = "$scratch" ] && return 1
  done
  return 0
}
expect_nothing() {  # expect_nothing <what happened>: within 15 s
  local i
  for ((i = 0; i < 150; i++)); do nothing_left && break; sleep 0.1; done
  nothing_left || fail "after $1: processes are left"
  ls -d "$scratch"/.dslaunch-rendezvous-* > /dev/null 2>&1 && fail "after $1: a rendezvous file is left"
}

run_many() {  # run_many <code> <processes> <words...>
  local want=$1 count=$2 got
  shift 2
  rm -rf run
  timeout 60 "${many[@]}" -n "$count" dslaunch train.json --run-dir run "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "mpirun dslaunch $*: exit code $got, expected $want"
}

export FAKE_RANK="steps=3"
run_many 0 4
expect_text out "run run: 4 ranks"
expect_text out "mpirun started 4 dslaunch on this host"
[ "$(grep -c "^run run" out)" -eq 1 ] || fail "more than one of them speaks"
expect_text run/logs/dslaunch.log "rank 3 joined"
expect_nothing "a run"

# What mpirun gave to each is kept: two processes are bound to a core each.
: > out
FAKE_RANK="steps=200 step_ms=20" "${many[@]}" --bind-to core -n 2 dslaunch train.json --run-dir run2 > out 2> err &
launcher=$!
if wait_until "the first step" test -s run2/metrics.jsonl && ! grep -q "not support binding" err; then
  sed -n 's/.*rank \([01]\) is pid \([0-9]*\).*/\1 \2/p' run2/logs/dslaunch.log > pids
  while read -r rank pid; do
    cores=$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$pid/status")
    case $cores in *,*|*-*|'') fail "rank $rank runs on cores '$cores', mpirun gave it one" ;; esac
  done < pids
  [ "$(awk '{print $2}' pids | xargs -I{} sed -n 's/^Cpus_allowed_list:\t//p' /proc/{}/status | sort -u | wc -l)" -eq 2 ] ||
    fail "both ranks run on one core"
fi
# USR1 goes through mpirun to all of them; the first one saves.
kill -USR1 $launcher
expect_end 75
expect_text out "committed tag="
expect_nothing "USR1"

# Exit codes of ranks, of the configuration and of the command line; the message comes once.
FAKE_RANK="steps=9 rank=3 at=2 do=data" run_many 65 4 --max-restarts 0
expect_text err "token 50000 at position 12"
run_many 2 4 --no-such-flag
[ "$(grep -c "^error" err)" -eq 1 ] || fail "a wrong flag is said $(grep -c "^error" err) times"
run_many 2 2 --hostfile hosts
expect_text err "mpirun has chosen the hosts"
run_many 2 2 --num-ranks 3
expect_text err "mpirun has started 2 dslaunch"
run_many 78 3
expect_text err "train_batch_size"
expect_nothing "errors"

# A contradiction names both; one process is no job of many.
RANK=1 timeout 60 "${many[@]}" -n 2 dslaunch train.json --run-dir run3 > out 2> err
[ $? -eq 2 ] || fail "RANK=1 on every process is accepted"
expect_text err "OMPI_COMM_WORLD_RANK=0 and RANK=1 contradict each other"
FAKE_RANK="steps=3" timeout 60 "${many[@]}" -n 1 dslaunch train.json --run-dir run4 --num-ranks 2 > out 2> err ||
  fail "mpirun -n 1: exit code $?"
expect_text out "run run4: 2 ranks"
timeout 60 "${many[@]}" -n 3 dslaunch --version > out 2> err || fail "--version: exit code $?"
[ "$(wc -l < out)" -eq 1 ] || fail "the version is said by all"

# Whatever is killed, nothing stays.
for victim in mpirun first other; do
  : > out
  FAKE_RANK="steps=100000 step_ms=20 ignore_stop=1" "${many[@]}" -n 4 dslaunch train.json --run-dir "run-$victim" > out 2> err &
  launcher=$!
  wait_until "the first step" test -s "run-$victim/metrics.jsonl" || break
  first=$(pgrep -P $launcher -x dslaunch | head -n 1)
  other=$(pgrep -P $launcher -x dslaunch | tail -n 1)
  case $victim in
    mpirun) kill -KILL $launcher ;;
    first) kill -KILL "$first" ;;
    other) kill -KILL "$other" ;;
  esac
  wait $launcher 2> /dev/null
  expect_nothing "kill -9 of $victim"
done
finish
