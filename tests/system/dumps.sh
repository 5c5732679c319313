#!/usr/bin/env bash
# Ranks that are asked what they do, again and again in the middle of fp32 products, do it all the same: no rank ends,
# and the weights are those of a run that nobody asked. DUMPS=<n>: how often (25).
source "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
dumps=${DUMPS:-25}
# Products large enough that a signal nearly always strikes one, in both ranks and all of their threads.
words=(train.json --num-ranks 2 --num-threads 2 --max-restarts 0 model.n_embd=256 model.n_head=4 model.n_positions=64
  data.sequence_length=64 "train.steps=$((dumps * 8))" train.save_every=0)
dslaunch "${words[@]}" --run-dir quiet > out 2> err || fail "the undisturbed run"

: > out
dslaunch "${words[@]}" --run-dir asked > out 2> err &
launcher=$!
wait_at_most 30 "the first step" test -s asked/metrics.jsonl
asked=0
while [ $asked -lt "$dumps" ] && kill -0 "$launcher" 2> /dev/null; do
  dslaunch stack asked > stacks 2>&1 && asked=$((asked + 1))
done
expect_end 0
grep -q '"event": "fault"' err && fail "a rank ended: $(head -1 err)"
grep -q " for transformer\.h\.[0-9]* .*backward" stacks || fail "no collective says which layer it is for"
[ $asked -ge $((dumps / 2)) ] || fail "only $asked dumps were made"
cmp -s quiet/final/model.safetensors asked/final/model.safetensors || fail "other weights than without dumps"
echo "$asked dumps"
finish
