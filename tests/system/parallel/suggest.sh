# dslaunch plan --suggest: every mesh is there once, what rules one out is said, the best is what a plan with its
# settings says and can be trained, and hosts that are apart change the order.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 6, "n_embd": 48, "n_positions": 32, "vocab_size": 257,
           "attn_pdrop": 0},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 2}, "train_batch_size": 6, "train_micro_batch_size_per_gpu": 3, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 1}}
JSON

expect 0 plan train.json --suggest --num-ranks 4
expect_text out "meshes        11 of 15 are possible"
expect_text out "data 4: train_batch_size: 4 ranks that see different samples cannot have equally many of 6"
expect_text out "data 1 x tensor 4: tensor_parallel.autotp_size: 4 ranks cannot share 6 heads equally"
expect_text out "data 1 x sequence 4: sequence_parallel_size: 4 ranks cannot share 6 heads equally"

expect 0 plan train.json --suggest --num-ranks 4 --json
python3 - > settings 2> err <<'PY' || fail "what is suggested"
import json, subprocess
told = json.load(open("out"))
assert len(told["meshes"]) == 11 and len(told["ruled_out"]) == 4 and told["world_size"] == 4, told
times = [row["seconds_per_step"] for row in told["meshes"]]
assert times == sorted(times) and times[0] > 0, times
assert all(row["micro_batch"] == 3 for row in told["meshes"]), told
# A plan of its own with those settings has its bytes; seconds are measured anew.
best = told["meshes"][0]
both = next(row for row in told["meshes"] if row["mesh"]["sequence"] == 4 and row["mesh"]["ring"] == 2)
assert set(both["communication"]) >= {"ring", "ulysses"}, both
for row in (best, both):
    words = ["dslaunch", "plan", "train.json", "--num-ranks", "4", "--json", *row["settings"]]
    plan = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert plan["mesh"] == row["mesh"], (plan, row)
    assert max(rank["device_bytes_peak"] for rank in plan["ranks"]) == row["device_bytes_peak"], (plan, row)
    sums = {axis: sum(ops.values()) for axis, ops in plan["communication"].items()}
    assert {axis: sent for axis, sent in sums.items() if sent} == row["communication"], (sums, row)
print(*best["settings"])
PY
# shellcheck disable=SC2046
expect 0 train.json --num-ranks 4 --run-dir best $(cat settings)

# What rules rings out. Of a file that asks for one, the others are proposed, too.
expect 0 plan train.json --suggest --num-ranks 2 model.attn_pdrop=0.1
expect_text out "data 1 x sequence 2 (ring 2): sequence_parallel_size: a ring drops no probabilities"
expect 0 plan train.json --suggest --num-ranks 2 data.sequence_length=30
expect_text out "data 1 x sequence 2 (ring 2): sequence_parallel_size: 2 ranks of a ring cannot have two equal pieces"
expect 0 plan train.json --suggest --num-ranks 4 --json +sequence_parallel_size=4 +sequence_parallel_attention=ring \
  +sequence_parallel_ring_size=2
python3 - <<'PY' || fail "what is suggested to a file that asks for rings"
import json
rows = {tuple(row["mesh"].values()): row["settings"] for row in json.load(open("out"))["meshes"]}
assert len(rows) == 11, rows
assert rows[1, 1, 4, 2, 1] == [], rows  # pipe, data, sequence, ring, tensor
assert "sequence_parallel_ring_size=4" in rows[1, 1, 4, 4, 1], rows
assert "sequence_parallel_attention=ulysses" in rows[1, 2, 2, 1, 1], rows
PY

# A stage that shares more is taken where there is too little memory, and where that is not enough it is said.
expect 0 plan train.json --suggest --num-ranks 2 zero_optimization.stage=0 --device-memory 1500KiB --json
python3 -c 'import json; rows = json.load(open("out"))["meshes"]; assert any(r["zero_stage"] > 0 for r in rows), rows' ||
  fail "no higher stage is tried"
expect 78 plan train.json --suggest --num-ranks 2 --device-memory 100KiB
expect_text out "every mesh is ruled out"
expect_text out "memory.device_limit: rank 0 needs"

# Between hosts, over a slow network, what talks least is the fastest.
expect 0 plan train.json --suggest --num-ranks 2 --num-hosts 2 --network 1kB --json
python3 -c 'import json; rows = json.load(open("out"))["meshes"]; sums = [sum(r["communication"].values()) for r in rows]
assert len(rows) > 2 and sums[0] == min(sums) and rows[0]["seconds_per_step"] > 10, rows' || fail "the network is not in it"
expect 2 plan train.json --suggest --num-ranks 3 --num-hosts 2
finish
