#!/usr/bin/env bash
# A model whose layers lie on two hosts continues prompts, by ssh and by mpirun: the text that one process makes of it.
# A host that is lost ends it with one error.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 4, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 20}, "train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}
JSON
seq 4000 > corpus.txt
mkdir tmp && export TMPDIR=$scratch/tmp  # where logs stay of what failed
timeout 60 dslaunch train.json --num-ranks 1 --run-dir trained > out 2> err || fail "training: exit code $?"
prompts=(--prompt 12 --prompt 345 --max-tokens 60)
timeout 60 dslaunch generate trained "${prompts[@]}" > alone 2> err || fail "one process: exit code $?"

same_text() { # same_text <hosts...>
  timeout 100 ip netns exec "$here" dslaunch generate trained "$@" --num-threads 1 "${prompts[@]}" > out 2> err ||
    fail "$*: exit code $?"
  cmp -s alone out || fail "$*: another text"
  wait_until "an empty cluster" nobody_left
}
same_text "${by_ssh[@]}"
command -v mpirun > /dev/null && same_text "${by_mpi[@]}"

rm out
: > out
DSL_FAILPOINTS="generate.asked=sleep(100)" ip netns exec "$here" \
  dslaunch generate trained "${by_ssh[@]}" --env DSL_FAILPOINTS --num-threads 1 --prompt 12 --max-tokens 10000 > out 2> err &
launcher=$!
wait_until "a text" test -s out
# shellcheck disable=SC2046
kill -KILL $(processes_of "${nodes[1]}" "$scratch/ssh/sshd1.conf") $(processes_of "${nodes[1]}" "dslaunch agent")
expect_end 76
expect_text err "host ${addresses[1]} is lost"
[ "$(grep -c "^error" err)" -eq 1 ] || fail "not one error"
wait_until "an empty cluster" nobody_left
finish
