#!/usr/bin/env bash
# Two hosts by ssh, and a third from which somebody tries every port while they train.
security=$(dirname "$(realpath "$0")")/../security.py
command -v python3 > /dev/null || { echo "SKIPPED: python3 is missing"; exit 77; }
source "$(dirname "$0")/hosts.sh"
third=dsl$$c
ip netns add "$third"
nodes+=("$third")
ip -n "$here" link add port2 type veth peer name eth0 netns "$third"
ip -n "$here" link set port2 master bridge up
ip -n "$third" addr add $net.4/24 dev eth0
ip -n "$third" link set eth0 up

chmod 755 "$scratch"
mkdir -m 700 vault
python3 "$security" --keeper "$scratch/vault" "$DSLAUNCH_RANKD" > keeper
chmod 755 keeper
export DSLAUNCH_RANKD=$scratch/keeper
ip netns exec "$here" python3 "$security" --capture bridge packets &
capture=$!
wait_until "the capture" test -e packets

start_on_hosts "${by_ssh[@]}" --env FAKE_RANK="steps=1000000 step_ms=20"
python3 "$security" --look "$scratch/vault" "$scratch/run" "$launcher" $(strangers) > seen
[ -s seen ] && [ -n "$(cat seen)" ] && fail "another user sees: $(cat seen)"
ip netns exec "$third" python3 "$security" --scan "${addresses[@]}" $net.1 > ports
grep -q "^$net.1 " ports || fail "the scan did not find the coordinator"
# An sshd says its version; everything else says nothing, or b'-' for closing without a word, or TLS's
# alert (21) that it was no TLS.
grep -v ' 22 ' ports | grep -vE "b'(-|.x15.x03.{0,40})+'$|b\"-*\"$" > clear
[ -s clear ] && fail "answers in clear: $(cat clear)"
steps=$(wc -l < run/metrics.jsonl)
more_steps() { [ "$(wc -l < run/metrics.jsonl)" -gt "$((steps + 10))" ]; }
wait_until "more steps after the scan" more_steps
kill -INT "$launcher"
expect_end 75
expect_text run/logs/dslaunch.log "turned away"
kill "$capture"

[ "$(stat -c %s packets)" -gt 100000 ] || fail "the capture saw no traffic"
python3 "$security" --search "$scratch/vault" "$scratch/run" out err packets ssh > found
expect_text found " secrets"
[ "$(head -n 1 found | cut -d" " -f1)" -ge 40 ] || fail "four ranks have tokens and keys: $(cat found)"
[ -n "$(tail -n +2 found | tr -d '\n')" ] && fail "secrets lie in $(tail -n +2 found)"
wait_until "an empty cluster" nobody_left
finish
