#!/usr/bin/env bash
# Whatever is killed, nothing is left on the hosts within 15 s.
source "$(dirname "$0")/hosts.sh"

forever=(--max-restarts 0 --env FAKE_RANK="steps=100000 step_ms=20 ignore_stop=1")

expect_nobody() {  # expect_nobody <what was killed>
  local i
  for ((i = 0; i < 150; i++)); do
    nobody_left && break
    sleep 0.1
  done
  nobody_left || fail "after $1: $(strangers | xargs ps -o pid,args -p)"
  wait_until "the end of its shared memory after $1" no_stray_shared_memory
}

our_dslaunch() { pgrep -P "$launcher" -x dslaunch || echo "$launcher"; }

for how in ssh mpi; do
  if [ $how = mpi ]; then
    command -v mpirun > /dev/null || continue
    words=("${by_mpi[@]}")
    command=mpirun
  else
    words=("${by_ssh[@]}")
    command=ssh
  fi

  start_on_hosts "${words[@]}" "${forever[@]}"
  kill -KILL "$(our_dslaunch)"
  wait "$launcher" 2> /dev/null
  expect_nobody "dslaunch --launcher $how"

  start_on_hosts "${words[@]}" "${forever[@]}"
  kill -KILL "$(pgrep -P "$(our_dslaunch)" -x $command | head -n 1)"
  expect_end 76
  expect_text err "is lost: $command was killed by signal 9"
  expect_nobody "$command"

  start_on_hosts "${words[@]}" "${forever[@]}"
  kill -KILL "$(on_hosts 'dslaunch agent' | head -n 1)"
  expect_end 76
  expect_nobody "an agent of $how"
done
finish
