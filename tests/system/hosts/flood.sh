#!/usr/bin/env bash
# Somebody on a job's host connects to the coordinator as fast as two processes can, in several ways, while ranks join.
# The ranks join all the same, and in less than three seconds more than while the same two processes knock where nobody
# listens: on two busy cores; those who are shut out would need tens. Times go to standard output.
command -v python3 > /dev/null || { echo "SKIPPED: python3 is missing"; exit 77; }
flood=$(dirname "$(realpath "$0")")/flooder.py
source "$(dirname "$0")/hosts.sh"
port=29471
seconds_of() { awk -F'[ :.]' '{ printf "%.3f\n", ($1 * 60 + $2) * 60 + $3 + $4 / 1000 }'; }

# join_during <kind> <port>: leaves in $took how long the ranks' joining took, from the launcher's word that it starts
# them to that of the last rank that it is in.
join_during() {
  local begin end flooders
  forget_run
  ip netns exec "${nodes[0]}" python3 "$flood" "$1" $net.1 "$2" 2 > flooders.out &
  flooders=$!
  wait_until "the flood" grep -q knocking flooders.out
  FAKE_RANK="steps=1" timeout 60 ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" \
    --master-port $port > out 2> err || fail "$1: exit code $?"
  kill -KILL $flooders $(processes_of "${nodes[0]}" "$flood") 2> /dev/null
  wait $flooders 2> /dev/null
  begin=$(grep -h "generation 1: rank 0 is" run/logs/dslaunch.log | clock_of | head -1)
  end=$(grep -h "joined as rank" run/logs/rank*.log | clock_of | sort -n | tail -1)
  [ -n "$begin" ] && [ -n "$end" ] || fail "$1: no word of a join in the logs"
  took=$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.2f", b - a }')
}
clock_of() { grep -oE '[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}' | seconds_of; }

quickest() { printf '%s\n' "$@" | sort -n | head -1; }

# What else the machine does makes joins slower, never quicker: so both ways take turns, and the quickest of each counts.
for kind in close hold nonsense hello; do
  calm=() flooded=()
  for i in 1 2 3; do
    join_during $kind $((port + 1))
    calm+=("$took")
    join_during $kind $port
    flooded+=("$took")
    grep -q "turned away" run/logs/dslaunch.log || fail "$kind: the flood did not reach the coordinator"
  done
  echo "$kind: ${flooded[*]} s, without ${calm[*]} s"
  awk -v a="$(quickest "${calm[@]}")" -v b="$(quickest "${flooded[@]}")" 'BEGIN { exit !(b < a + 3) }' ||
    fail "$kind: too slow to join"
done
wait_until "an empty cluster" nobody_left
finish
