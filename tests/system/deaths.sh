# Ranks that die: who did it is said at once, in one block, and where the stack is.
. "$(dirname "$0")/launcher.sh"

# dies <code> <what to do with the rank's pid>: starts two ranks, does it to the second, waits for the end.
dies() {
  local code=$1
  shift
  FAKE_RANK="steps=100000" start --num-ranks 2 --max-restarts 0
  "$@" "${ranks[1]}"
  expect_end "$code"
}

dies 143 kill -TERM
expect_text err "rank 1 was killed by signal 15 (Terminated): sent by pid $$ (bash) of user $(id -u)"
dies 139 kill -SEGV
expect_text err "rank 1 was killed by signal 11 (Segmentation fault): sent by pid $$"
expect_text run/logs/rank-1.log "the stack of the thread that it struck"
expect_text err "run/logs/rank-1.log, with the stack where the signal struck"
dies 137 kill -KILL
expect_text err "rank 1 was killed by signal 9 (Killed)"
grep -q "from outside\|dmesg tells" err || fail "it is not said where SIGKILL came from"
grep -q "OOM" err && fail "a plain kill is taken for the kernel's"

rm -rf run
FAKE_RANK="rank=1 at=2 do=fault steps=500" expect 139 train.json --run-dir run --num-ranks 2 --max-restarts 0
expect_text err "rank 1 was killed by signal 11 (Segmentation fault): at address 0x10, nothing is mapped there"
grep -q "misbehave\|fake_rank" run/logs/rank-1.log || fail "no stack in the log"
expect_text err "cause\": \"rank 1 was killed by signal 11"
rm -rf run
FAKE_RANK="rank=1 at=2 do=abort steps=500" expect 134 train.json --run-dir run --num-ranks 2 --max-restarts 0
expect_text err "rank 1 was killed by signal 6 (Aborted)"
expect_text err "it said    my last words"

# The block also comes with a restart.
rm -rf run
# Late enough for a heartbeat to have told where it was.
FAKE_RANK="rank=1 at=5 epoch=1 do=fault steps=8 step_ms=300" expect 0 train.json --run-dir run --num-ranks 2
expect_text out "restart 1 of 3: rank 1 was killed by signal 11 (Segmentation fault): at address 0x10"
expect_text out "process    pid"
expect_text out "last seen  at step "

# Memory: a cgroup that is too small for the rank, which the kernel then kills. It is large enough for the rank to have
# become the largest by then: the kernel kills that one, and the launcher has some 30 MiB itself.
group=/sys/fs/cgroup/memory/dslaunch-deaths-$$
if [ "$(id -u)" -eq 0 ] && mkdir "$group" 2> /dev/null; then
  echo $((256 << 20)) > "$group/memory.limit_in_bytes"
  (
    echo $BASHPID > "$group/cgroup.procs"
    rm -rf run
    FAKE_RANK="rank=1 at=2 do=hoard steps=5000" exec timeout 60 dslaunch train.json --run-dir run --num-ranks 2 \
      --max-restarts 0 > out 2> err
  )
  [ $? -eq 137 ] || fail "a rank that the kernel killed: exit code $?"
  expect_text err "rank 1 was killed by signal 9 (Killed): by the kernel's OOM killer: cgroup /dslaunch-deaths-$$ has a limit of 256 MiB"
  expect_text err "advice"
  rmdir "$group"
else
  echo "no memory cgroup of version 1 that may be used here: the kernel's OOM killer was not tried"
fi

# A full disk: the path, and how much room there is.
if [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=3m tmpfs small 2> /dev/null; then
  seq 4000 > corpus.txt
  DSLAUNCH_RANKD="$bin/rankd" expect 74 train.json --run-dir small/run --num-ranks 2 --max-restarts 0 \
    train.steps=100000 train.save_every=1 model.n_embd=128 model.vocab_size=1024 data.tokenizer=byte
  grep -qE "No space left on device|need=[0-9]+ free=[0-9]+ bytes in .*small/run" err ||
    fail "it is not said what was full"
  expect_text err "advice     make room there"
  umount small
fi
finish
