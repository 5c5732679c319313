# Ranks that share samples (sequence_parallel_size) in real processes: the losses of one rank, what is refused before
# anything starts, other meshes after a restart, and a rank that is killed.
. "$(dirname "$0")/meshes.sh"
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32, "validation_fraction": 0.1},
 "train": {"steps": 20, "save_every": 5}, "train_batch_size": 8, "steps_per_print": 1000,
 "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
 "zero_optimization": {"stage": 2}}
JSON

expect 0 train.json --num-ranks 1 --run-dir alone
expect 0 train.json --num-ranks 2 --run-dir two +sequence_parallel_size=2
close two alone
grep -q '"sequence": 2' two/plan.json || fail "the plan does not tell the mesh"
grep -q '"all_to_all"' two/plan.json || fail "the plan has no trades of heads"

# Both axes at once.
expect 0 train.json --num-ranks 4 --run-dir four +sequence_parallel_size=2 +data_parallel_size=2
close four alone
grep -q '"world_size": 4' four/plan.json || fail "a mesh of 2 x 2 is not 4 ranks"

# Keys and values that go round a ring, where probabilities are not dropped.
plain="train.json train.steps=5 model.attn_pdrop=0"
# shellcheck disable=SC2086
expect 0 $plain --num-ranks 1 --run-dir plain
# shellcheck disable=SC2086
expect 0 $plain --num-ranks 2 --run-dir ring +sequence_parallel_size=2 +sequence_parallel_attention=ring
close ring plain
grep -q '"send"' ring/plan.json || fail "the plan has nothing that goes round"
# shellcheck disable=SC2086
expect 0 $plain --num-ranks 4 --run-dir both +sequence_parallel_size=4 +sequence_parallel_attention=ring \
  +sequence_parallel_ring_size=2
close both plain
grep -q '"ulysses"' both/plan.json || fail "the plan has no trades inside of a ring"

# Nothing is started of what cannot be.
for wrong in "+sequence_parallel_size=2 +sequence_parallel_attention=ring --num-ranks 2" \
  "+sequence_parallel_size=3 --num-ranks 3" "+sequence_parallel_size=8 --num-ranks 8" \
  "+sequence_parallel_size=2 --num-ranks 3" \
  "+sequence_parallel_size=4 +sequence_parallel_attention=ring +sequence_parallel_ring_size=3 --num-ranks 4" \
  "+sequence_parallel_size=2 +data_parallel_size=2 --num-ranks 2" \
  "+sequence_parallel_size=2 +zero_optimization.mics_shard_size=2 zero_optimization.stage=3 --num-ranks 4"; do
  # shellcheck disable=SC2086
  expect 78 train.json --run-dir wrong $wrong
  [ -e wrong/logs/rank-0.log ] && fail "ranks were started for $wrong"
done
expect_text err "neighbourhoods"

# A run goes on with other numbers of ranks for a sample.
expect 0 train.json --num-ranks 2 --run-dir moves +sequence_parallel_size=2 train.steps=10
expect 0 train.json --num-ranks 4 --run-dir moves +sequence_parallel_size=4 train.steps=15
expect 0 train.json --num-ranks 1 --run-dir moves train.steps=20
close moves alone

# A rank that dies at any place of a mesh: the run goes on from its checkpoint, to the same weights.
for rank in 0 1 3; do
  DSL_FAILPOINTS="engine.backward_done@rank$rank@epoch1=12*off->kill" \
    expect 0 train.json --num-ranks 4 --run-dir "dies$rank" +sequence_parallel_size=2 --max-restarts 2
  cmp -s four/final/model.safetensors "dies$rank/final/model.safetensors" ||
    fail "the weights are others after rank $rank was killed"
done
finish
