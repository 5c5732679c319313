#!/usr/bin/env bash
# The first run on a GPU: that the kernels are right and that training works, and how quick it is, in the order in which
# answers are needed. pack.sh puts this script beside the bundle that it opens.
#
# usage: first.sh A|B [SECONDS] [--device cuda:0 | emulated] [--only PATTERN,...] [--out DIR] [--work DIR]
#   A (400 s)  what the machine has and can do at most, GPT-2 124M while the GPU is quiet, eagerly and as graphs, then
#              the cases of every file of tests that a device has, a process for each, while PyTorch compiles its peer
#   B (290 s)  what the stride of the vocabulary costs, PyTorch on 124M, every kernel over its ceiling, jobs by dslaunch,
#              GPT-2 1558M, and the files of tests that A left
#   SECONDS    when everything is over: parts that do not end are killed before, others are named as not reached
#   --only     parts whose names match one of the patterns of the shell
#   --out      where summary-A, results-A.jsonl and log-A go; else $OUT, or gpu-results
#   --work     where the bundle is opened and what compiled is kept for the next call; else /tmp/ds-gpu
# Examples:
#   bash .gpu/first.sh A 400
#   bash .gpu/first.sh B 290 --out results
#   bash .gpu/first.sh A 60 --only 'kernels/attention,kernels/soft*'
# Exits with 1 where a part failed, timed out or was stopped, with 2 where it cannot begin.
set -uo pipefail
# shellcheck source=tests/gpu/parts.sh
. "$(dirname "$0")/parts.sh"
# shellcheck disable=SC2034  # parts.sh reads it
declare -A seconds_of=([A]=400 [B]=290)
gpt2_124m=(--model gpt2-124m --batch 32)

call_A() {
  if is_emulated; then
    skip nvidia-smi "the device is emulated"
  else
    try nvidia-smi 15 nvidia-smi
  fi
  ours env 40 "$bundle/bin/dslaunch" env
  ceilings
  needs=14 bench "124m eager" 60 "${gpt2_124m[@]}" --steps 5 --no-graphs
  needs=14 bench "124m graphs" 60 "${gpt2_124m[@]}" --steps 20
  needs=50 torch_training "torch 124m compiles" 200 "${gpt2_124m[@]}" --steps 1 &
  # What stands on the others comes after them: memory, products, what a model calls, what its update calls.
  files kernels device_memory matmul product_finish softmax loss layer_norm activation attention attention_choice mask part sink
  files kernels rope step_graph step_scalars streaming dots scaling update rule_update moments random_shapes empty_and_alias
  files kernels vocabulary_parts row_sums selection pooling value_loss hidden_loss distillation distillation_parts teacher_head preference signs pruning quantize fake_quantize block_codes newton_schulz refusals meta
  files kernels route route_golden expert_order capacity expert_rows grouped_matmul router_loss
  files core host_copy
  files comm solo_comm staged_comm
  files checkpoint device_pieces
  files model adapters linear_products moe_kernels functions stage weights_on_device host_saves tiles model
  files optim rules rule_optimizer optimizer_suite whole_parameters scale_and_rules
  files train device_engine
  settle
}

call_B() {
  torch "vocabulary strides" 40 torch_vocabulary_strides.py
  needs=50 torch_training "torch 124m" 90 "${gpt2_124m[@]}" --steps 20
  needs=14 kernels_over_ceilings
  job train memory resume
  needs=64 bench 1558m 110 --model gpt2-1558m --batch 16 --steps 8
  files zero store_suite optimizer_state_store_suite sharded_store quantized masters optimizers
  files train offload_together device_meshes block_eigenvalues
  files zero param_groups row_exchange onebit zenflow block_base
  files model frozen
  files offload io_handle
  if [ -d "$bundle/golden" ]; then
    files model golden_run
  else
    skip model/golden_run "the bundle has no golden runs (pack.sh --golden)"
  fi
  settle
  job across generate zero
}

stage "$@"
