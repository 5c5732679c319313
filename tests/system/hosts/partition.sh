#!/usr/bin/env bash
# A host that is cut off, in each direction: noticed by silence within 5 s, and training goes on without it
# within 15 s. What ran there is gone in that time too, though nobody can tell it so. The times go to standard
# output; their limits here allow for a machine that does other work.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
elastic=(--nodes 1:2 --num-threads 1 train.steps=1000000 train.save_every=200)
lost=${nodes[1]}
nowhere=02:00:00:00:00:01  # nobody's address: what is sent there falls silently

now() { date +%s.%N; }
faults() { grep -c '"event": "fault"' err; }
noticed() { [ "$(faults)" -gt 0 ]; }
steps() { wc -l < run/metrics.jsonl; }
goes_on() { [ "$(steps)" -gt "$1" ]; }

within() {  # within <seconds> <what> <command...>: polls, and leaves the time passed in $took
  local limit=$1 what=$2 start
  shift 2
  start=$(now)
  until "$@"; do
    took=$(awk -v a="$start" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }')
    awk -v t="$took" -v l="$limit" 'BEGIN { exit !(t > l) }' && { fail "$what took more than $limit s"; return 1; }
    sleep 0.02
  done
  took=$(awk -v a="$start" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }')
}

heal() {
  ip -n "$here" link set port1 up
  ip -n "$here" neigh flush dev bridge nud permanent
  ip -n "$lost" neigh flush dev eth0 nud permanent
}

cut() {
  case $1 in
    both) ip -n "$here" link set port1 down ;;
    up) ip -n "$lost" neigh replace $net.1 lladdr $nowhere dev eth0 nud permanent ;;
    down) ip -n "$here" neigh replace "${addresses[1]}" lladdr $nowhere dev bridge nud permanent ;;
  esac
}

alone() { [ -z "$(processes_of "$lost" rankd)$(processes_of "$lost" "dslaunch agent")" ]; }

for way in both up down; do
  start_on_hosts "${by_ssh[@]}" "${elastic[@]}"
  wait_until "the first save" grep -q global_step200 out run/logs/dslaunch.log
  cut $way
  within 8 "noticing a host cut off ($way)" noticed || break
  found=$took
  at=$(steps)
  within 15 "going on without it ($way)" goes_on "$at" || break
  echo "cut $way: noticed after $found s, the next step $took s later"
  grep '"event": "fault"' err | head -1 | grep -qE '"rank": [23],' || fail "not the lost host is blamed: $(head -1 err)"
  within 15 "the end of what ran on the lost host ($way)" alone
  kill -INT "$launcher"
  expect_end 75
  heal
  wait_until "an empty cluster" nobody_left
done
finish
