#!/usr/bin/env bash
# Two hosts by ssh: what is started where, how it ends, and what is said about hosts that cannot be used.
source "$(dirname "$0")/hosts.sh"

run_on_hosts 0 "${by_ssh[@]}" --env FAKE_RANK="steps=3"
expect_text out "run run: 4 ranks"
for rank in 0 1 2 3; do
  [ -e "run/logs/rank-$rank.log" ] || fail "no log of rank $rank"
done
expect_text run/logs/dslaunch.log "rank 3 joined"
wait_until "an empty cluster" nobody_left

# Filters and aliases of ssh's own configuration.
echo 'node-1 slots=4' > alias
run_on_hosts 0 --hostfile alias --launcher-args "-F $scratch/ssh/config" --num-gpus 1 --env FAKE_RANK="steps=2"
expect_text out "run run: 1 rank"
run_on_hosts 0 "${by_ssh[@]}" --include "${addresses[1]}:1" --env FAKE_RANK="steps=2"
expect_text out "run run: 1 rank"

# What a rank says and how it ends.
run_on_hosts 65 "${by_ssh[@]}" --max-restarts 0 --env FAKE_RANK="steps=9 rank=3 at=2 do=data"
expect_text err "token 50000 at position 12"
run_on_hosts 137 "${by_ssh[@]}" --max-restarts 0 --env FAKE_RANK="steps=9 rank=2 at=2 do=kill"
expect_text err '"rank": 2, "host": "'
run_on_hosts 0 "${by_ssh[@]}" --env FAKE_RANK="steps=9 rank=2 at=2 epoch=1 do=kill"
expect_text out "restart 1 of 3"

# Cores are divided on each host by what its agent finds there.
if [ "$(nproc)" -ge 2 ]; then
  run_on_hosts 0 "${by_ssh[@]}" --bind-cores-to-rank --report-bindings --env FAKE_RANK="steps=2"
  expect_text out "binding: host ${addresses[0]} slot 0: cores"
  expect_text out "binding: host ${addresses[1]} slot 1: cores"
  [ "$(grep -c "^binding: .*shared" out)" -eq 0 ] || fail "a rank is not bound"
fi

# Every bad host in one report, before anything runs; no run directory is left.
printf '%s slots=1\n' "${addresses[@]}" "$net.9" no-such-host stranger unknown silent > bad
ip netns exec "$here" python3 -c "
import socket, time
s = socket.create_server(('$net.1', 2200))
time.sleep(60)" &
rm -rf run
run_on_hosts 69 --hostfile bad train_batch_size=7 --launcher-args "-F $scratch/ssh/config -o ConnectTimeout=3"
expect_text err "5 of 7 hosts cannot be used"
for text in "$net.9: ssh exited with code 255" "no-such-host: ssh exited with code 255" \
  "stranger: ssh exited with code 255" "Permission denied" "unknown: ssh exited with code 255" \
  "Host key verification failed" "silent: ssh exited with code 255"; do
  expect_text err "$text"
done
[ -e run ] && fail "a run directory was made although hosts were bad"
wait_until "an empty cluster" nobody_left
finish
