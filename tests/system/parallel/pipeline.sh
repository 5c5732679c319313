# Stages of a pipeline in real processes: the losses of one rank beside other samples, a rank that is killed, what is
# refused before anything starts, and a run that goes on with other stages, from a folder that stages wrote.
. "$(dirname "$0")/meshes.sh"
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 4, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32, "validation_fraction": 0.1},
 "train": {"steps": 8, "save_every": 4}, "train_batch_size": 8, "gradient_accumulation_steps": 2,
 "steps_per_print": 1000, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
 "zero_optimization": {"stage": 1}}
JSON

expect 0 train.json --num-ranks 1 --run-dir alone
expect 0 train.json --num-ranks 4 --run-dir four +pipeline.stages=2
close four alone
grep -q '"pipe": 2' four/plan.json || fail "the plan does not tell the mesh"
grep -q '"bubble"' four/plan.json || fail "the plan does not tell the bubble"
grep -q '"send"' four/plan.json || fail "the plan has no boundaries between stages"

# A rank of the last stage dies in the middle of a step.
DSL_FAILPOINTS="engine.backward_done@rank3@epoch1=11*off->kill" \
  expect 0 train.json --num-ranks 4 --run-dir dies +pipeline.stages=2 --max-restarts 2
cmp -s four/final/model.safetensors dies/final/model.safetensors || fail "the weights are others after a rank was killed"

# Nothing is started of what cannot be.
for wrong in "+pipeline.stages=7 --num-ranks 7" "+pipeline.stages=2 --num-ranks 3" \
  "+pipeline.stages=2 zero_optimization.stage=2 --num-ranks 2" \
  "+pipeline.stages=2 +pipeline.schedule=zb_v --num-ranks 2" \
  "+pipeline.stages=2 +pipeline.partition=type:( --num-ranks 2"; do
  # shellcheck disable=SC2086
  expect 78 train.json --run-dir wrong $wrong
  [ -e wrong/logs/rank-0.log ] && fail "ranks were started for $wrong"
done
expect_text err "pipeline.partition"

# A run goes on with other stages, and another from the folder that stages wrote.
expect 0 train.json --num-ranks 2 --run-dir moves +pipeline.stages=2 +pipeline.schedule=zb_h1 train.steps=4
expect 0 train.json --num-ranks 2 --run-dir moves
close moves alone
cat > folder.json <<'JSON'
{"model": {"folder": "four/final"},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 2}, "train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}}
JSON
expect 0 folder.json --num-ranks 1 --run-dir from1
expect 0 folder.json --num-ranks 4 --run-dir from4 +pipeline.stages=2 +tensor_parallel.autotp_size=2
close from4 from1
finish
