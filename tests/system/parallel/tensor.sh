# Ranks that share layers (tensor_parallel) in real processes: the losses of one rank, what is refused before anything
# starts, other meshes after a restart, a model folder that is read shard by shard, and a rank that is killed.
. "$(dirname "$0")/meshes.sh"
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 32, "vocab_size": 257},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32, "validation_fraction": 0.1},
 "train": {"steps": 10, "save_every": 5}, "train_batch_size": 8, "steps_per_print": 1000,
 "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
 "zero_optimization": {"stage": 1}}
JSON

expect 0 train.json --num-ranks 1 --run-dir alone
expect 0 train.json --num-ranks 2 --run-dir two +tensor_parallel.autotp_size=2
close two alone
grep -q '"tensor": 2' two/plan.json || fail "the plan does not tell the mesh"
grep -q '"all_reduce"' two/plan.json || fail "the plan has no sums over the ranks of a layer"

# Beside other parts of samples, and with a rank that dies at some place of the mesh.
all="train.json --num-ranks 4 +tensor_parallel.autotp_size=2 +sequence_parallel_size=2 zero_optimization.stage=3"
# shellcheck disable=SC2086
expect 0 $all --run-dir four
close four alone
# shellcheck disable=SC2086
DSL_FAILPOINTS="engine.backward_done@rank3@epoch1=7*off->kill" expect 0 $all --run-dir dies --max-restarts 2
cmp -s four/final/model.safetensors dies/final/model.safetensors || fail "the weights are others after a rank was killed"

# Nothing is started of what cannot be.
for wrong in "+tensor_parallel.autotp_size=3 --num-ranks 3" "+tensor_parallel.autotp_size=2 --num-ranks 3" \
  "+tensor_parallel.autotp_size=4 +sequence_parallel_size=2 --num-ranks 8" \
  "+tensor_parallel.autotp_size=2 optimizer.type=Lamb --num-ranks 2"; do
  # shellcheck disable=SC2086
  expect 78 train.json --run-dir wrong $wrong
  [ -e wrong/logs/rank-0.log ] && fail "ranks were started for $wrong"
done
expect_text err "tensor_parallel.autotp_size"

# A run goes on with other numbers of ranks for a layer, and another from the folder that it wrote.
expect 0 train.json --num-ranks 4 --run-dir moves +tensor_parallel.autotp_size=4 train.steps=5
expect 0 train.json --num-ranks 2 --run-dir moves +tensor_parallel.autotp_size=2 train.steps=8
expect 0 train.json --num-ranks 1 --run-dir moves train.steps=10
close moves alone
cat > folder.json <<'JSON'
{"model": {"folder": "alone/final"},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 2}, "train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}}
JSON
expect 0 folder.json --num-ranks 1 --run-dir from1
expect 0 folder.json --num-ranks 2 --run-dir from2 +tensor_parallel.tp.tp_size=2
close from2 from1
finish
