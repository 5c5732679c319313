# communication.backend: every data plane trains the same weights, and what cannot be had is refused before
# anything starts. MPI where mpirun is there and rankd is built with it.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
seq 1 3000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 30, "save_every": 10}, "train_batch_size": 4, "steps_per_print": 1000,
 "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
JSON
over() { printf 'communication.backend=%s' "$1"; }
same_weights() {  # same_weights <run>
  cmp -s by-shm/final/model.safetensors "$1/final/model.safetensors" || fail "$1: other weights than over shm"
  [ "$(grep -c . "$1/metrics.jsonl")" -eq 30 ] || fail "$1: not 30 steps of metrics"
}
refused() {  # refused <code> <text> <command...>: nothing is started
  local want=$1 text=$2 got
  shift 2
  timeout 60 "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "$*: exit code $got, expected $want"
  expect_text err "$text"
  [ -e never ] && fail "$*: a run directory was made"
}

expect 0 train.json --num-ranks 2 --run-dir by-shm
expect_text by-shm/logs/rank-0.log "collectives over shm"
for backend in shm tcp; do
  expect 0 train.json --num-ranks 2 --run-dir "by-$backend-asked" "$(over $backend)"
  expect_text "by-$backend-asked/logs/rank-1.log" "collectives over $backend"
  same_weights "by-$backend-asked"
done
expect 0 train.json --num-ranks 1 --run-dir alone "$(over tcp)"
# A run goes on over another one.
expect 0 train.json --num-ranks 2 --run-dir moved "$(over tcp)" train.steps=20
expect 0 train.json --num-ranks 2 --run-dir moved "$(over shm)"
same_weights moved

printf 'node-1 slots=1\nnode-2 slots=1\n' > hosts
refused 78 "shm is memory of one host, and this job has 2" \
  dslaunch --hostfile hosts --launcher ssh train.json --run-dir never "$(over shm)"
refused 78 "nccl is for tensors of GPUs" dslaunch train.json --device cpu --run-dir never "$(over nccl)"
refused 78 "nccl is for tensors of GPUs" env CUDA_VISIBLE_DEVICES= dslaunch train.json --run-dir never "$(over nccl)"
refused 78 "nccl is for tensors of GPUs" dslaunch train.json --device cpu --dry-run "$(over nccl)"
refused 78 "communication.backend" dslaunch train.json --run-dir never "$(over gloo)"

built_with_mpi() { rankd --version > /dev/null && dslaunch --version | grep -q "MPI yes"; }
if ! built_with_mpi; then
  refused 78 "mpi is not in this build" dslaunch train.json --run-dir never "$(over mpi)"
  finish
fi
refused 78 "mpirun -n RANKS dslaunch train.json" dslaunch train.json --run-dir never "$(over mpi)"
command -v mpirun > /dev/null || finish

many=(mpirun --allow-run-as-root --oversubscribe)
processes() {  # of this test
  local pid
  for pid in $(pgrep -x dslaunch; pgrep -x rankd; pgrep -x mpirun); do
    [ "$(readlink "/proc/$pid/cwd" 2> /dev/null)" = "$scratch" ] && echo "$pid"
  done
}
nobody() { [ -z "$(processes)" ]; }
by_mpi() {  # by_mpi <code> <ranks> <words...>
  local want=$1 ranks=$2 got
  shift 2
  timeout 120 "${many[@]}" -n "$ranks" dslaunch train.json "$(over mpi)" "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "mpirun -n $ranks dslaunch $*: exit code $got, expected $want"
  wait_until "an empty machine" nobody
}

by_mpi 0 2 --run-dir by-mpi
expect_text out "an MPI job cannot lose a rank and go on"
for rank in 0 1; do expect_text by-mpi/logs/rank-$rank.log "collectives over mpi (Open MPI"; done
takes=$(ompi_info --parsable --all 2> /dev/null | sed -n 's/.*:mpi_built_with_cuda_support:value://p')
[ "$takes" = true ] || expect_text by-mpi/logs/rank-0.log "host memory only"
same_weights by-mpi
by_mpi 0 2 --run-dir by-mpi-3 zero_optimization.stage=3
same_weights by-mpi-3
# Others meet over shared memory under mpirun, too, and nobody needs MPI for it.
timeout 60 "${many[@]}" -n 2 dslaunch train.json --run-dir by-mpirun > out 2> err || fail "mpirun, auto: exit code $?"
expect_text by-mpirun/logs/rank-1.log "collectives over shm"
same_weights by-mpirun

refused 78 "mpi needs PMIx, and mpirun has set no PMIX_NAMESPACE" \
  "${many[@]}" -n 2 env -u PMIX_NAMESPACE dslaunch train.json --run-dir never "$(over mpi)"
refused 78 "nccl is for tensors of GPUs" \
  "${many[@]}" -n 2 dslaunch train.json --device cpu --run-dir never "$(over nccl)"

# The loss of a rank ends the run with one error, and a new mpirun goes on.
: > out
"${many[@]}" -n 2 dslaunch train.json --run-dir lost "$(over mpi)" train.steps=1000000 > out 2> err &
launcher=$!
if wait_until "a checkpoint" test -e lost/committed.json; then
  for pid in $(processes); do
    [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = rankd ] && kill -KILL "$pid" && break
  done
  expect_end 137
  [ "$(grep -c "^error" err)" -eq 1 ] || fail "the loss of a rank is said $(grep -c "^error" err) times"
  expect_text err "killed by signal 9"
  grep -q "restart 1 of" out && fail "an MPI job was restarted"
  wait_until "an empty machine" nobody
fi
by_mpi 0 2 --run-dir by-mpi-again train.steps=20
by_mpi 0 2 --run-dir by-mpi-again
expect_text out "resumed step=20"
same_weights by-mpi-again

# USR1 saves and ends all with 75. An error of one rank alone keeps its own code.
: > out
"${many[@]}" -n 2 dslaunch train.json --run-dir saved "$(over mpi)" train.steps=1000000 > out 2> err &
launcher=$!
if wait_until "the first step" test -s saved/metrics.jsonl; then
  kill -USR1 $launcher
  expect_end 75
  expect_text out "committed tag="
fi
wait_until "an empty machine" nobody
if rankd --list-failpoints | grep -qx train.engine_built; then
  DSL_FAILPOINTS='train.engine_built@rank1=error(eio)' by_mpi 74 2 --run-dir broken
fi
finish
