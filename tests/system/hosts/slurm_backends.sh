#!/usr/bin/env bash
# communication.backend: mpi under srun, which has to offer PMIx for it.
source "$(dirname "$0")/slurm_nodes.sh"
dslaunch --version | grep -q "MPI yes" || { echo "SKIPPED: this build has no MPI"; exit 77; }
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=100 zero_optimization.stage=2 --num-threads 1)

timeout 100 dslaunch train.json --num-ranks 4 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
run_many() {  # run_many <code> <srun's words> -- <dslaunch's words>
  local want=$1 got words=()
  shift
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  rm -rf run
  timeout 100 srun -Q "${words[@]}" dslaunch train.json --run-dir run "${same[@]}" "$@" > out 2> err < /dev/null
  got=$?
  [ "$got" -eq "$want" ] || fail "srun ${words[*]} dslaunch $*: exit code $got, expected $want"
}
by_mpi=communication.backend=mpi
run_many 78 --mpi=none -N 1 -n 4 -- $by_mpi
expect_text err "mpi needs PMIx, and srun has set no PMIX_NAMESPACE"
run_many 78 --mpi=pmi2 -N 1 -n 4 -- $by_mpi
expect_text err "use srun --mpi=pmix"
if srun --mpi=list 2>&1 | grep -q pmix; then
  for where in "-N 1 -n 4"; do  # two virtual nodes of one machine cannot both serve PMIx
    run_many 0 --mpi=pmix $where -- $by_mpi
    expect_text run/logs/rank-3.log "collectives over mpi"
    cmp local/final/model.safetensors run/final/model.safetensors || fail "srun $where: other weights"
  done
fi
finish
