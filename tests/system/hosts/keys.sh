#!/usr/bin/env bash
# Which copies of ranks' keys and tokens are in the memory of launcher, agents and ranks while they train, started by
# ssh and by mpirun. What is allowed here is what docs/security.md says that stays. Counts go to standard output; those
# of ssh and mpirun are for the eye alone.
security=$(dirname "$(realpath "$0")")/../security.py
command -v python3 > /dev/null || { echo "SKIPPED: python3 is missing"; exit 77; }
source "$(dirname "$0")/hosts.sh"
mkdir -m 700 vault
python3 "$security" --keeper "$scratch/vault" "$DSLAUNCH_RANKD" > keeper
chmod 755 keeper
export DSLAUNCH_RANKD=$scratch/keeper FAKE_RANK="steps=1000000 step_ms=20"

# examine <count>: so many processes of dslaunch, and four ranks.
examine() {
  python3 "$security" --memory "$scratch/vault" $(strangers) $(ip netns pids "$here") > found
  cat found
  awk -v dslaunch="$1" '
    { role = $1; for (i = 2; i <= NF; ++i) { split($i, pair, "="); n[pair[1]] = pair[2] + 0 } }
    role == "planted" { found = n["own-token"] > 0 }
    role ~ /^dslaunch/ { --dslaunch; if (n["other-text"] + n["other-number"] > 0 || n["pems"] > 1) bad = bad "\n" $0 }
    role ~ /agent$/ && n["other-token"] > 0 { bad = bad "\n" $0 }
    role == "fake_rank" {
      ++ranks
      if (n["own-number"] != 1 || n["own-text"] > 1 || n["pems"] > 1) bad = bad "\n" $0
      if (n["other-token"] + n["other-text"] + n["other-number"] > 0) bad = bad "\n" $0
    }
    END {
      if (!found) print "the planted token was not found"
      if (dslaunch != 0 || ranks != 4) print "not all processes were looked at"
      if (bad != "") print "keys that should be gone:" bad
    }' found > complaints
  [ -s complaints ] && fail "$(cat complaints)"
  rm -f vault/*
}

start_on_hosts "${by_ssh[@]}" --env FAKE_RANK="$FAKE_RANK"
examine 3
kill -INT "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left

if command -v mpirun > /dev/null; then
  forget_run
  : > out
  "${many[@]}" dslaunch train.json --run-dir run > out 2> err &
  launcher=$!
  if wait_until "the first step" test -s run/metrics.jsonl; then examine 5; fi
  kill -USR1 $launcher
  expect_end 75
  wait_until "an empty cluster" nobody_left
fi
finish
