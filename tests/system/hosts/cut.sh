#!/usr/bin/env bash
# Two hosts that reach dslaunch but not each other, one way and both, during training and from its start: the
# verdict comes within 30 s and names the link, not the program; the run goes on with the hosts that reach each
# other where it may, waits for the link where it may not, and ends with 76 where it may not wait.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
endless=(--num-threads 1 train.steps=1000000 train.save_every=200)
a=${addresses[0]}
b=${addresses[1]}
nowhere=02:00:00:00:00:01  # nobody's address: what is sent there falls silently

block() { ip -n "$1" neigh replace "$2" lladdr $nowhere dev eth0 nud permanent; }
cut() {
  case $1 in
    there) block "${nodes[0]}" "$b" ;;
    back) block "${nodes[1]}" "$a" ;;
    both) block "${nodes[0]}" "$b"; block "${nodes[1]}" "$a" ;;
  esac
}
heal() {
  ip -n "${nodes[0]}" neigh flush dev eth0 nud permanent
  ip -n "${nodes[1]}" neigh flush dev eth0 nud permanent
}
sentence() {
  case $1 in
    there) echo "$a cannot reach $b, the other way works" ;;
    back) echo "$b cannot reach $a, the other way works" ;;
    both) echo "$a and $b cannot reach each other" ;;
  esac
}
noticed() { grep -q '"event": "fault"' err; }
steps() { wc -l < run/metrics.jsonl; }
goes_on() { [ "$(steps)" -gt "$at" ]; }
expect_verdict() {
  local fault
  fault=$(grep -m1 '"event": "fault"' err)
  case $fault in *"$1"*) ;; *) fail "expected \"$1\" in: $fault" ;; esac
  grep -q "program or its data" out err && fail "the program is blamed for the network"
}
finish_run() {
  kill -INT "$launcher"
  expect_end "$1"
  heal
  wait_until "an empty cluster" nobody_left
}

for way in there back both; do
  start_on_hosts "${by_ssh[@]}" "${endless[@]}" --nodes 1:2
  wait_until "the first save" grep -q global_step200 out run/logs/dslaunch.log
  began=$SECONDS
  cut $way
  wait_at_most 30 "the verdict ($way)" noticed
  took=$((SECONDS - began))
  [ "$took" -le 30 ] || fail "$way: the verdict took $took s"
  expect_verdict "$(sentence $way)"
  at=$(steps)
  wait_at_most 20 "training without $b ($way)" goes_on
  echo "cut $way: verdict after $took s, the next step $((SECONDS - began - took)) s later"
  finish_run 75
  grep -q '"world_size": 2' run/report.json || fail "$way: the run did not shrink to one host"
done

# A cut that is there from the start.
forget_run
cut both
: > out
ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" "${endless[@]}" --nodes 1:2 > out 2> err &
launcher=$!
wait_at_most 50 "the first step without $b" test -s run/metrics.jsonl
expect_verdict "$b gets no answer from $a"
finish_run 75

# As many hosts as were asked for: it waits until they reach each other again.
start_on_hosts "${by_ssh[@]}" "${endless[@]}"
wait_until "the first save" grep -q global_step200 out run/logs/dslaunch.log
cut there
wait_at_most 30 "waiting for the link" grep -q "waiting up to .* for lost hosts to come back" out
expect_verdict "$(sentence there)"
sleep 5
grep -q "hosts are back" out && fail "a host that is still cut off counts as back"
at=$(steps)
heal
wait_at_most 30 "training with both again" goes_on
finish_run 75
grep -q '"world_size": 4' run/report.json || fail "it did not go on with both hosts"

# Nor may it wait.
start_on_hosts "${by_ssh[@]}" "${endless[@]}" --wait-for-hosts 0
cut both
expect_end 76
expect_verdict "$(sentence both)"
heal
wait_until "an empty cluster" nobody_left
finish
