#!/usr/bin/env bash
# Started by mpirun on two hosts, two processes on each: the first host's first becomes the launcher.
security=$(dirname "$(realpath "$0")")/../security.py
source "$(dirname "$0")/hosts.sh"
command -v mpirun > /dev/null || skip "mpirun is missing"
command -v python3 > /dev/null || skip "python3 is missing"

run_many() {  # run_many <code> <words...>
  local want=$1 got
  shift
  rm -rf run
  timeout 100 "${many[@]}" dslaunch train.json --run-dir run "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "mpirun dslaunch $*: exit code $got, expected $want"
  wait_until "an empty cluster" nobody_left
  ls -d .dslaunch-rendezvous-* > /dev/null 2>&1 && fail "a rendezvous file is left"
}

export FAKE_RANK="steps=3"
run_many 0
expect_text out "run run: 4 ranks"
expect_text out "mpirun started 4 dslaunch on 2 hosts"
expect_text run/logs/dslaunch.log "rank 3 joined"

FAKE_RANK="steps=9 rank=3 at=2 do=data" run_many 65 --max-restarts 0
expect_text err "token 50000 at position 12"
run_many 78 train_batch_size=3

# The second host's first does not come before the rendezvous file has been read here.
cat > patient << 'END'
#!/bin/sh
while [ "$OMPI_COMM_WORLD_RANK" = 2 ] && [ ! -e seen ]; do sleep 0.1; done
exec dslaunch "$@"
END
chmod 755 patient
read_token() {
  cat .dslaunch-rendezvous-* 2> /dev/null | sed -n 2p > token
  grep -qxE '[0-9a-f]{64}' token
}
ip netns exec "$here" python3 "$security" --capture bridge packets &
capture=$!
wait_until "the capture" test -e packets

# A signal to mpirun reaches the first one, who saves.
: > out
FAKE_RANK="steps=100000 step_ms=20" "${many[@]}" ./patient train.json --run-dir run5 > out 2> err &
launcher=$!
wait_until "the rendezvous file" read_token
touch seen
if wait_until "the first step" test -s run5/metrics.jsonl; then
  # The token was good for one rendezvous, and is nowhere: not in files, in packets, in anybody's memory.
  kill "$capture"
  [ "$(stat -c %s packets)" -gt 10000 ] || fail "the capture saw no traffic"
  grep -rlF -f token run5 out err packets ssh > told && fail "the token lies in $(cat told)"
  python3 "$security" --holders token $(strangers) $(ip netns pids "$here") > holders
  grep -qx planted holders || fail "the token was not found where it is"
  grep -vx planted holders > told && fail "the token is in the memory of $(cat told)"
  # No secret of the rendezvous or of a rank can be read from outside.
  for pid in $(ip netns pids "${nodes[0]}") $(ip netns pids "${nodes[1]}"); do
    cat "/proc/$pid/cmdline" "/proc/$pid/environ" 2> /dev/null
  done | tr '\0' '\n' | grep -q -e "PRIVATE KEY" -e "dslaunch rendezvous" -f token && fail "a secret stands in argv or environment"
  kill -USR1 $launcher
  expect_end 75
  expect_text out "committed tag="
fi
wait_until "an empty cluster" nobody_left

# Real ranks: the same weights, to the bit, as of four ranks started here.
export DSLAUNCH_RANKD=$bin/rankd
seq 4000 > corpus.txt
same=(--num-threads 1 train.steps=100 train.save_every=50 zero_optimization.stage=2)
timeout 100 dslaunch train.json --num-ranks 4 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
run_many 0 "${same[@]}"
cmp local/final/model.safetensors run/final/model.safetensors || fail "other weights"
rm -rf run
timeout 100 mpirun --allow-run-as-root --oversubscribe -n 4 dslaunch train.json --run-dir run "${same[@]}" > out 2> err ||
  fail "mpirun here: exit code $?"
cmp local/final/model.safetensors run/final/model.safetensors || fail "other weights by mpirun here"
finish
