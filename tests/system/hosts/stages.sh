#!/usr/bin/env bash
# A host is lost, and with it all ranks of a pipeline's last stage: the run goes on with as many pipelines as fit on
# the host that is left, from the copy of that stage's state in the memory of this host, to the losses of a run that was
# there from the start. Where not one pipeline fits, it ends with 76.
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 300, "save_in_memory_every": 1, "copy_in_memory_every": 5}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
 "steps_per_print": 1000, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
 "zero_optimization": {"stage": 1}, "pipeline": {"stages": 2}}
JSON
seq 4000 > corpus.txt
elastic=("${by_ssh[@]}" --nodes 1:2 --num-threads 1)

last_loss() { sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$1/metrics.jsonl" | tail -1; }
steps_done() { [ "$(wc -l < run/metrics.jsonl)" -gt "$1" ]; }
lose_host() {  # nobody can log in there again, and its agent dies
  # shellcheck disable=SC2046
  kill -KILL $(processes_of "${nodes[1]}" "$scratch/ssh/sshd1.conf") $(processes_of "${nodes[1]}" "dslaunch agent")
}

timeout 60 dslaunch train.json --num-ranks 2 --num-threads 1 --run-dir whole > out 2> err || fail "two ranks: $?"
start_on_hosts "${elastic[@]}" --max-restarts 1
wait_until "40 steps" steps_done 40
lose_host
expect_end 0
expect_text out "with 2 ranks"
grep -q '^resumed step=[0-9]* from=memory' out || fail "the stage that was lost did not come from memory"
grep -q '"pipe": 2' run/plan.json || fail "the run went on without its stages"
awk -v a="$(last_loss run)" -v b="$(last_loss whole)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (0.0001 * b) ^ 2) }' ||
  fail "the last loss is $(last_loss run), of a run with two ranks $(last_loss whole)"
python3 -c 'import json; worlds = [e["world_size"] for e in json.load(open("run/report.json"))["generations"]]
assert worlds == [4, 2], worlds' || fail "other worlds"
wait_until "an empty cluster" nobody_left

# Stages of two ranks that share layers: four ranks for a sample, and two are left.
ip netns exec "${nodes[1]}" "${sshd[@]}" 2>> ssh/sshd1.log &
wait_until "sshd again" answers "${addresses[1]}"
start_on_hosts "${elastic[@]}" --wait-for-hosts 1s train.steps=100000 +tensor_parallel.autotp_size=2
lose_host
expect_end 76
expect_text out "2 ranks that are left; it is a multiple of the 4 ranks that work on one sample"
expect_text run/report.json '"exit_code": 76'
wait_until "an empty cluster" nobody_left
finish
