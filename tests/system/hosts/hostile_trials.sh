#!/usr/bin/env bash
# What a run meets besides dying processes, at random moments, again and again.
#   hostile_trials.sh BIN_DIR [TRIALS [KIND...]]
#     second:local second:hosts   another launch in the same run directory, while the first one runs, is stopped, or
#                                 was killed
#     pipe:local   pipe:hosts     nobody reads what it prints for some seconds; in half of the trials a rank dies meanwhile
#     pause:local  pause:hosts    the launcher stands still for up to 9 s
#     cut:hosts    cut:pair       hosts do not reach each other, one way or both, for up to 20 s
#     lose:hosts   lose:pair      the link of a host goes down for good, and the run goes on without it
# Real training on shared memory (local), or TCP between two hosts (network namespaces) with two ranks each (hosts) or
# one (pair). After each trial: the exit codes are those that they should be, the weights are to the bit those of an
# undisturbed run of as many ranks, every step stands in the metrics once, nothing is left.
# SEED=<n> begins another series; the same one gives the same moments. Not a test of its own: system.one_launcher,
# launcher_writes, launcher_paused, hosts_paused and hosts_cut try each kind.
trials=${2:-30}
kinds=("${@:3}")
[ ${#kinds[@]} -gt 0 ] || kinds=(second:local pipe:local pause:local second:hosts pipe:hosts pause:hosts cut:hosts
  cut:pair lose:hosts lose:pair)
source "$(dirname "$0")/hosts.sh"
export DSLAUNCH_RANKD="$bin/rankd"
seq 4000 > corpus.txt
RANDOM=${SEED:-1}
nowhere=02:00:00:00:00:01
steps=0

common=(--num-threads 1 train.save_every=100 train.keep_checkpoints=2 steps_per_print=1)
printf '%s slots=1\n' "${addresses[@]}" > pair
launch() {  # launch <local|hosts|pair> <words...>
  local where=$1
  shift
  case $where in
    local) exec "$bin/dslaunch" train.json --run-dir run --num-ranks 2 "${common[@]}" "train.steps=$steps" "$@" ;;
    *) exec ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run --hostfile "$where" "${by_ssh[@]:2}" \
      "${common[@]}" "train.steps=$steps" "$@" ;;
  esac
}
launcher_pid() { pgrep -P "$launcher" -x dslaunch || echo "$launcher"; }  # below `ip netns exec`
between() { awk -v a="$1" -v b="$2" -v r=$RANDOM 'BEGIN { printf "%.3f", a + (b - a) * r / 32767 }'; }
one_of() { shift $((RANDOM % $#)); echo "$1"; }
weights() { sha256sum < run/final/model.safetensors; }
# Those that work in this script's directory; other runs of the machine have theirs.
our_ranks() {
  local entry
  for entry in $(find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$scratch" 2> /dev/null); do
    entry=${entry%/cwd}
    case $({ tr '\0' ' ' < "$entry/cmdline"; } 2> /dev/null) in "$bin/rankd"*) echo "${entry#/proc/}" ;; esac
  done
}
rank_of_ours() { our_ranks | shuf -n 1 --random-source=<(yes "$RANDOM"); }
no_ranks_left() { [ -z "$(our_ranks)" ]; }

check_run() {  # what must hold at the end of every trial
  [ "$world" != kept ] || [ "$(weights)" = "$reference" ] || fail "$trial: other weights than those of an undisturbed run"
  [ "$(grep -o '^{"step": [0-9]*' run/metrics.jsonl | sort -u | wc -l) $(wc -l < run/metrics.jsonl)" = "$steps $steps" ] ||
    fail "$trial: the metrics have $(wc -l < run/metrics.jsonl) of $steps steps"
  wait_until "an empty cluster" nobody_left
  wait_until "the end of all ranks" no_ranks_left
}
ends_with() {  # ends_with <code>: of the first launcher
  local got
  wait "$launcher"
  got=$?
  [ "$got" -eq "$1" ] || fail "$trial: the launcher ended with $got, expected $1"
}
restarts() { grep -o '"restarts": [0-9]*' run/report.json | tr -dc 0-9; }

try_second() {
  local state got seed=7
  state=$(one_of runs stopped killed)
  : > out
  launch "$1" > out 2> err &
  launcher=$!
  wait_at_most 30 "a run directory" test -s run/lease.json
  sleep "$(between 0 1.5)"
  trial="$trial, the first one $state"
  case $state in
    stopped) kill -STOP "$(launcher_pid)" ;;
    killed) kill -KILL "$(launcher_pid)" && wait "$launcher" 2> /dev/null; seed=1234 ;;
  esac
  # A subshell, so that a second one that trains for minutes would be ended.
  (launch "$1" "train.seed=$seed") > out2 2> err2
  got=$?
  if [ $state = killed ]; then
    [ $got -eq 0 ] || fail "$trial: the second one ended with $got: $(tail -1 err2)"
  elif [ $got -eq 77 ] && [ $state = runs ] && grep -q "the seed was" err2 && ! kill -0 "$launcher" 2> /dev/null; then
    ends_with 0  # it was over before the second one had reached its hosts
  else
    [ $got -eq 75 ] || fail "$trial: the second one ended with $got: $(tail -1 err2)"
    grep -q "dslaunch, pid" err2 || fail "$trial: the second one does not name the first"
    kill -CONT "$(launcher_pid)"
    ends_with 0
  fi
}

try_pipe() {
  local dies deaf
  dies=$((RANDOM % 2))
  deaf=$(between 1 5)
  trial="$trial, deaf for $deaf s$([ $dies -eq 1 ] && echo ", a rank dies")"
  rm -f taken && mkfifo taken
  launch "$1" > taken 2>&1 &
  launcher=$!
  exec 9< taken
  wait_at_most 30 "the first step" test -s run/metrics.jsonl
  sleep "$(between 0 1)"
  [ $dies -eq 1 ] && kill -KILL "$(rank_of_ours)"
  sleep "$deaf"
  cat <&9 > out
  exec 9<&-
  ends_with 0
  [ "$(restarts)" -eq $dies ] || fail "$trial: $(restarts) restarts"
}

try_pause() {
  local pause
  pause=$(between 0.2 9)
  trial="$trial, for $pause s"
  : > out
  launch "$1" --max-restarts 0 > out 2> err &
  launcher=$!
  wait_at_most 30 "the first step" test -s run/metrics.jsonl
  sleep "$(between 0 2)"
  kill -STOP "$(launcher_pid)"
  sleep "$pause"
  kill -CONT "$(launcher_pid)"
  ends_with 0
}

now() { date +%s.%N; }
seconds_since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }
# seconds_until <limit> <command...>: how long it takes until the command succeeds; the limit where it does not.
seconds_until() {
  local began limit=$1
  began=$(now)
  shift
  until "$@" || at_most "$limit" "$(seconds_since "$began")"; do sleep 0.1; done
  seconds_since "$began"
}
noticed() { grep -q '"event": "fault"' err; }

block() { ip -n "$1" neigh replace "$2" lladdr $nowhere dev eth0 nud permanent; }
try_cut() {
  local way long verdict
  way=$(one_of there back both)
  long=$(one_of "$(between 0.5 6)" "$(between 16 20)")
  trial="$trial, $way for $long s"
  : > out
  launch "$1" > out 2> err &
  launcher=$!
  wait_at_most 30 "the first step" test -s run/metrics.jsonl
  sleep "$(between 0 1.5)"
  [ $way = back ] || block "${nodes[0]}" "${addresses[1]}"
  [ $way = there ] || block "${nodes[1]}" "${addresses[0]}"
  verdict=$(seconds_until "$long" noticed)
  if noticed; then sleep "$(awk -v l="$long" -v v="$verdict" 'BEGIN { print (l > v ? l - v : 0) }')"; fi
  for name in "${nodes[@]}"; do ip -n "$name" neigh flush dev eth0 nud permanent; done
  ends_with 0
  if at_most 16 "$long"; then
    noticed && times+=("$verdict")
    grep -q "the network between hosts is cut: .* cannot reach " err || fail "$trial: no verdict names the link"
    [ "$(restarts)" -eq 1 ] || fail "$trial: $(restarts) restarts"
  else
    [ "$(restarts)" -eq 0 ] || fail "$trial: $(restarts) restarts for a cut that TCP outlives"
  fi
  grep -q "program or its data" out err && fail "$trial: the program is blamed"
}

steps_made() { wc -l < run/metrics.jsonl; }
goes_on() { [ "$(steps_made)" -gt "$at" ]; }
try_lose() {
  local lost=$((RANDOM % 2)) took
  world=shrinks  # sums of other parts: equal, but not to the bit
  trial="$trial, host $lost"
  : > out
  launch "$1" --nodes 1:2 > out 2> err &
  launcher=$!
  wait_at_most 30 "the first save" grep -qs global_step100 out run/logs/dslaunch.log
  sleep "$(between 0 1.5)"
  ip -n "$here" link set "port$lost" down
  sleep 0.5  # what was on its way
  at=$(steps_made)
  took=$(seconds_until 30 goes_on)
  times+=("$took")
  at_most "$took" 15 || fail "$trial: the next step after $took s"
  ends_with 0
  ip -n "$here" link set "port$lost" up
}

for kind in "${kinds[@]}"; do
  where=${kind#*:}
  steps=$([ "$where" = local ] && echo 3000 || echo 2500)
  rm -rf run
  (launch "$where") > out 2> err || { fail "$kind: the undisturbed run"; continue; }
  reference=$(weights)
  took=$(grep -o '"seconds": [0-9.]*' run/report.json | head -1)
  held=0
  times=()
  for ((i = 1; i <= trials; ++i)); do
    trial="$kind $i (seed ${SEED:-1})"
    before=$failures
    world=kept
    rm -rf run out out2 err err2
    "try_${kind%:*}" "$where"
    check_run
    if [ $failures -eq "$before" ]; then held=$((held + 1)); else echo "  in trial: $trial"; fi
  done
  echo "$kind: $held of $trials held (undisturbed: $took)"
  [ ${#times[@]} -eq 0 ] || printf '%s\n' "${times[@]}" | sort -n |
    awk -v k="$kind" '{ t[NR] = $1 } END { print "  seconds to the verdict or the next step: median " t[int((NR + 1) / 2)] ", most " t[NR] " of " NR }'
done
finish
