#!/usr/bin/env bash
# Kills one part of a running job, again and again at random moments, and looks what is left and for how long.
#   orphan_trials.sh BIN_DIR [TRIALS [KIND...]]     kinds: local:dslaunch local:rank ssh:dslaunch ssh:rank
#                                                   ssh:agent ssh:ssh mpi:dslaunch mpi:rank mpi:agent mpi:mpirun
#   and, where mpirun or srun starts dslaunch:      started:mpirun started:dslaunch started:rank
#                                                   slurm:srun slurm:dslaunch slurm:rank (these alone)
# Real training with shared memory (local) or TCP (hosts). Per kind: trials, median and worst time until nothing
# is left; limits 5 s locally, 15 s on hosts. Not a test of its own: system.launcher_orphans and
# system.hosts_orphans try each kind once.
trials=${2:-20}
kinds=("${@:3}")
[ ${#kinds[@]} -gt 0 ] || kinds=(local:dslaunch local:rank ssh:dslaunch ssh:rank ssh:agent ssh:ssh
  mpi:dslaunch mpi:rank mpi:agent mpi:mpirun started:mpirun started:dslaunch started:rank)
case ${kinds[0]} in
  slurm:*)
    source "$(dirname "$0")/slurm_nodes.sh"
    strangers() { :; }  # the nodes are this machine
    ;;
  *) source "$(dirname "$0")/hosts.sh" ;;
esac
export DSLAUNCH_RANKD="$bin/rankd"
seq 4000 > corpus.txt
endless=(--max-restarts 0 --num-threads 1 train.steps=10000000 train.save_every=7 train.keep_checkpoints=2)

in_here() {  # our processes, wherever they run: those that work in this test's directory
  local entry
  for entry in $(find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$scratch"); do
    case $(tr '\0' ' ' < "${entry%/cwd}/cmdline") in
      *rankd* | *"$bin/dslaunch"* | dslaunch*) entry=${entry%/cwd}; echo "${entry#/proc/}" ;;
    esac
  done
} 2> /dev/null
# Shared memory that our ranks have mapped; other jobs of this machine have theirs.
segments() { for pid in $(in_here); do grep -o '/dev/shm/dslaunch-[^ ]*' "/proc/$pid/maps" 2> /dev/null; done | sort -u; }
left_segments() { for name in $mapped; do [ -e "$name" ] && echo "$name"; done; }
unclean() { [ -n "$(in_here)" ] || [ -n "$(strangers)" ] || [ -n "$(left_segments)" ]; }
among() {  # among <pattern>: of in_here
  local pid
  for pid in $(in_here); do
    case $({ tr '\0' ' ' < "/proc/$pid/cmdline"; } 2> /dev/null) in *"$1"*) echo "$pid" ;; esac
  done
}
# The dslaunch that hold ranks; the others of a host only stand by, and nobody misses them.
serving() {
  local pid
  for pid in $(among "dslaunch train.json"); do
    [ "$pid" != "$launcher" ] && pgrep -P "$pid" > /dev/null && echo "$pid"
  done
}

start_job() {
  rm -rf run
  case $1 in
    local) dslaunch train.json --run-dir run --num-ranks 2 "${endless[@]}" > out 2> err & ;;
    ssh) ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_ssh[@]}" "${endless[@]}" > out 2> err & ;;
    mpi) ip netns exec "$here" "$bin/dslaunch" train.json --run-dir run "${by_mpi[@]}" "${endless[@]}" > out 2> err & ;;
    started) "${many[@]}" dslaunch train.json --run-dir run "${endless[@]}" > out 2> err & ;;
    slurm)
      wait_until "idle nodes" both_idle
      srun -Q -N 2 --ntasks-per-node=2 dslaunch train.json --run-dir run "${endless[@]}" > out 2> err < /dev/null &
      ;;
  esac
  launcher=$!
  wait_until "the first step" test -s run/metrics.jsonl
}

victim() {
  local name
  case $1 in
    started:mpirun | slurm:srun) echo "$launcher" ;;
    started:dslaunch | slurm:dslaunch) serving | shuf -n 1 ;;
    *:dslaunch) echo "$launcher" ;;
    local:rank | started:rank | slurm:rank) among "rankd --from-stdin" | shuf -n 1 ;;
    *:rank) on_hosts "rankd --from-stdin" | shuf -n 1 ;;
    *:agent) on_hosts "dslaunch agent" | shuf -n 1 ;;
    *:*) name=${1#*:}; pgrep -P "$launcher" -x "$name" | shuf -n 1 ;;
  esac
}

for kind in "${kinds[@]}"; do
  limit=15
  [ "${kind%%:*}" = local ] && limit=5
  : > times
  for ((trial = 0; trial < trials; trial++)); do
    start_job "${kind%%:*}" || break
    sleep "0.$((RANDOM % 400 + 100))"
    mapped=$(segments)
    kill -KILL "$(victim "$kind")" 2> /dev/null || { fail "$kind: nobody to kill"; break; }
    start=$(date +%s%N)
    wait "$launcher" 2> /dev/null
    while unclean; do
      [ $((($(date +%s%N) - start) / 1000000000)) -lt $((limit + 5)) ] || break
      sleep 0.05
    done
    echo $((($(date +%s%N) - start) / 1000000)) >> times
    unclean && { fail "$kind, trial $trial: left: $(in_here) $(strangers) $(left_segments)"; break; }
  done
  sort -n times | awk -v kind="$kind" '{ t[NR] = $1 } END {
    printf "%s: %d trials, nothing left after %.2f s (median), %.2f s (worst)\n", kind, NR, t[int((NR + 1) / 2)] / 1000, t[NR] / 1000 }'
  [ "$(sort -n times | tail -1)" -le $((limit * 1000)) ] || fail "$kind: worse than $limit s"
done
finish
