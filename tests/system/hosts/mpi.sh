#!/usr/bin/env bash
# Two hosts by mpirun, whose daemons come by ssh.
source "$(dirname "$0")/hosts.sh"
command -v mpirun > /dev/null || skip "mpirun is missing"

run_on_hosts 0 "${by_mpi[@]}" --env FAKE_RANK="steps=3"
expect_text out "run run: 4 ranks"
expect_text run/logs/dslaunch.log "rank 3 joined"
wait_until "an empty cluster" nobody_left

run_on_hosts 65 "${by_mpi[@]}" --max-restarts 0 --env FAKE_RANK="steps=9 rank=3 at=2 do=data"
expect_text err "token 50000 at position 12"
wait_until "an empty cluster" nobody_left
finish
