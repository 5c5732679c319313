#!/usr/bin/env bash
# A host is lost and comes back while a run goes on, and another one is added to the hostfile: the world shrinks
# and grows, growing is no restart, and every sample is used exactly once.
tests=$(dirname "$(realpath "$0")")/..
source "$tests/hosts/hosts.sh"
unset DSLAUNCH_RANKD
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32, "vocab_size": 256,
           "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 100000, "save_every": 100}, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 1},
 "elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 12, "micro_batch_sizes": [1, 2, 3, 4]}}
JSON
seq 200000 > corpus.txt

steps() { tail -1 run/metrics.jsonl 2> /dev/null | sed 's/.*"step": *\([0-9]*\).*/\1/'; }
wait_long() {  # wait_long <seconds> <what> <command...>
  local limit=$1 what=$2 i
  shift 2
  for ((i = 0; i < limit * 10; i++)); do
    "$@" && return 0
    kill -0 "$launcher" 2> /dev/null || break
    sleep 0.1
  done
  fail "waited $limit s for $what"
  tail -20 run/logs/dslaunch.log
  return 1
}
says() { grep -qF -- "$1" out; }
beyond() { [ "$(steps)" -gt "$1" ]; }

# Both hosts, one of them for a while only.
start_on_hosts "${by_ssh[@]}" --num-threads 1 --nodes 1:2 --audit-samples --max-restarts 1
wait_long 30 "some steps" beyond 20 || finish
ip -n "${nodes[1]}" link set eth0 down
wait_long 40 "a smaller world" says "restart 1 of 1" || finish
expect_text out "with 2 ranks"
mark=$(steps)
wait_long 30 "steps on one host" beyond $((mark + 20)) || finish
ip -n "${nodes[1]}" link set eth0 up
wait_long 60 "the larger world" says "growth; generation 3 with 4 ranks" || finish
mark=$(steps)
wait_long 30 "steps on both hosts" beyond $((mark + 20)) || finish
kill -TERM "$launcher"
expect_end 75
python3 -B - "$tests" <<'PY' || fail "the audit does not hold"
import json, pathlib, subprocess, sys
sys.path.insert(0, sys.argv[1])
from exactly_once import samples_by_step
report = json.load(open("run/report.json"))
assert report["restarts"] == 1, report
assert [one["world_size"] for one in report["generations"]] == [4, 2, 4], report["generations"]
steps = report["steps"]
code = subprocess.call(["dslaunch", "train.json", "--run-dir", "whole", "--num-ranks", "2", "--num-threads", "1",
                        "--audit-samples", f"train.steps={steps}"], stdout=subprocess.DEVNULL)
assert code == 0, code
found, expected = samples_by_step(pathlib.Path("run")), samples_by_step(pathlib.Path("whole"))
assert sorted(found) == list(range(1, steps + 1)), "steps are missing"
assert found == expected, "other samples"
print(f"{steps} steps over worlds of 4, 2 and 4 ranks, every sample once")
PY
wait_until "an empty cluster" nobody_left

# A host that is added to the hostfile joins when it is asked for.
printf '%s slots=2\n' "${addresses[0]}" > hosts
start_on_hosts "${by_ssh[@]}" --num-threads 1 --nodes 1:2
printf '%s slots=2\n' "${addresses[1]}" >> hosts
ip netns exec "$here" "$bin/dslaunch" ctl join run > joined 2>&1 || fail "ctl join: $(cat joined)"
expect_text joined "looking for ${addresses[1]}"
wait_long 40 "the larger world" says "growth; generation 2 with 4 ranks" || finish
mark=$(steps)
wait_long 30 "steps on both hosts" beyond $((mark + 10)) || finish
kill -TERM "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left
finish
