#!/usr/bin/env bash
# Limits of the shell that starts a run, and a working directory that is gone: each is met by a run that goes on, or
# by one error that names it.
source "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt

# Less address space than the machine has memory.
(ulimit -v 8000000 && timeout 60 dslaunch train.json --run-dir run --num-ranks 2 > out 2> err) ||
  fail "two ranks do not train within 8 GB of addresses"

# Files may grow to 2 MiB, and the checkpoint goes beyond; shared memory does with less.
rm -rf run
(ulimit -f 65536 && timeout 60 dslaunch train.json --run-dir run --num-ranks 2 > out 2> err) ||
  fail "two ranks do not train where files may not be as large as the memory"
rm -rf run
(ulimit -f 2048 && timeout 100 dslaunch train.json --run-dir run --num-ranks 1 --max-restarts 0 model.n_embd=256 > out 2> err)
[ $? -eq 74 ] || fail "a limit on file sizes is not a storage error"
expect_text err "a limit on file sizes: ulimit -f"
grep -q "signal 25" err && fail "a rank was killed by SIGXFSZ"

mkdir gone
cd gone || exit 1
rmdir ../gone
timeout 60 dslaunch ../train.json > ../out 2> ../err
got=$?
cd ..
[ "$got" -eq 66 ] || fail "a removed working directory: exit code $got, expected 66"
(mkdir gone && cd gone && rmdir ../gone && exec timeout 60 dslaunch "$scratch/train.json" --run-dir "$scratch/run2" > "$scratch/out" 2> "$scratch/err")
[ $? -eq 66 ] || fail "a removed working directory is not said to be missing"
expect_text err "the working directory cannot be used"
finish
