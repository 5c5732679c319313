# Sourced by the launcher's system tests: real processes, a scratch directory, no leftovers.
# Usage of a test: bash tests/system/<name>.sh <folder of dslaunch, rankd and fake_rank>
set -u
bin=$(realpath "$1")
export PATH="$bin:$PATH" DSLAUNCH_RANKD="$bin/fake_rank"
scratch=$(mktemp -d)
cd "$scratch" || exit 1
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "sequence_length": 8}, "train": {"steps": 5},
 "train_batch_size": 8, "steps_per_print": 10, "optimizer": {"type": "AdamW"}}
JSON
failures=0

# Ends only what this test started, and removes only what it made.
clean_up() {
  local job
  for job in $(jobs -p); do kill -KILL "$job" 2>/dev/null; done
  cd / && rm -rf "$scratch"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*"
  for file in out err; do
    [ -e "$scratch/$file" ] && sed "s/^/  $file: /" "$scratch/$file" | tail -20
  done
  failures=$((failures + 1))
}

# expect <code> <words...>: runs dslaunch in the foreground into the files out and err.
expect() {
  local want=$1
  shift
  timeout 60 dslaunch "$@" > out 2> err
  local got=$?
  [ "$got" -eq "$want" ] || fail "dslaunch $*: exit code $got, expected $want"
}

expect_text() {  # expect_text <file> <fixed text>
  grep -qF -- "$2" "$1" || fail "$1 does not contain: $2"
}

# start <words...>: dslaunch in the background as $launcher, once its ranks have made a step.
start() {
  rm -rf run
  : > out
  dslaunch train.json --run-dir run "$@" > out 2> err &
  launcher=$!
  wait_until "the first step" test -s run/metrics.jsonl || finish
  mapfile -t ranks < <(pgrep -P "$launcher")
}

expect_end() {  # expect_end <code>: of $launcher
  local got
  wait "$launcher"
  got=$?
  [ "$got" -eq "$1" ] || fail "the launcher ended with $got, expected $1"
}

# wait_at_most <seconds> <what> <command...>: polls.
wait_at_most() {
  local limit=$1 what=$2 i
  shift 2
  for ((i = 0; i < limit * 100; i++)); do
    "$@" && return 0
    sleep 0.01
  done
  fail "waited $limit s for $what"
  return 1
}
# What is looked for in the output of a program in the background is looked for in an empty file: `: > out` before it begins,
# which may be later than the first look.
wait_until() { wait_at_most 10 "$@"; }  # wait_until <what> <command...>

gone() {  # no such process, or only its zombie
  local pid state
  for pid in "$@"; do
    state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null) || continue
    [ -z "$state" ] || [ "$state" = Z ] || return 1
  done
  return 0
}

# Every piece of shared memory is somebody's: other runs on the machine have theirs.
no_stray_shared_memory() {
  local file
  for file in /dev/shm/dslaunch-*; do
    [ -e "$file" ] && ! grep -qsF "$file" /proc/[0-9]*/maps && return 1
  done
  return 0
}

finish() {
  [ "$failures" -eq 0 ] && echo "ok" && exit 0
  echo "$failures failures"
  exit 1
}
