#!/usr/bin/env bash
# Somebody on a job's host connects to the coordinator as fast as two processes can, in several ways, while ranks join.
# The ranks join all the same, and in less than a second more than while the same two processes knock where nobody
# listens. Times go to standard output.
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
  ip netns exec "${nodes[0]}" python3 "$flood" "$1" $net.1 "$2" 2 &
  flooders=$!
  FAKE_RANK="steps=1" timeout 60 ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" \
    --master-port $port > out 2> err || fail "$1: exit code $?"
  kill -KILL $flooders $(processes_of "${nodes[0]}" "$flood") 2> /dev/null
  wait $flooders 2> /dev/null
  begin=$(grep -h "epoch 1: rank 0 is" run/logs/dslaunch.log | clock_of | head -1)
  end=$(grep -h "joined as rank" run/logs/rank*.log | clock_of | sort -n | tail -1)
  [ -n "$begin" ] && [ -n "$end" ] || fail "$1: no word of a join in the logs"
  took=$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.2f", b - a }')
}
clock_of() { grep -oE '[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}' | seconds_of; }

median_of_three() {  # median_of_three <kind> <port>: in $median
  local i times=()
  for i in 1 2 3; do
    join_during "$@"
    times+=("$took")
  done
  median=$(printf '%s\n' "${times[@]}" | sort -n | sed -n 2p)
  echo "$1 at port $2: ${times[*]} s"
}

for kind in close hold nonsense hello; do
  median_of_three $kind $((port + 1))
  calm=$median
  median_of_three $kind $port
  awk -v a="$calm" -v b="$median" 'BEGIN { exit !(b < a + 1) }' || fail "$kind: $median s to join, $calm s without"
  grep -q "turned away" run/logs/dslaunch.log || fail "$kind: the flood did not reach the coordinator"
done
wait_until "an empty cluster" nobody_left
finish
