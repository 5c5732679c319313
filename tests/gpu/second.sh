#!/usr/bin/env bash
# The second run on a GPU, when the first one's faults are repaired: training of every model beside PyTorch, and what
# profilers and sanitizers say of the kernels. pack.sh puts this script beside the bundle that it opens.
#
# usage: second.sh A|B [SECONDS] [--device cuda:0 | emulated] [--only PATTERN,...] [--out DIR] [--work DIR]
#   A (560 s)  GPT-2 124M in batches of 32 and 64, with tuned products, and with a backward of attention that adds in
#              any order, GPT-2 1558M, Llama 1.5B and 7B, every kernel over its ceiling, and PyTorch on two of the
#              models; a part whose memory the GPU does not have is skipped
#   B (200 s)  counters of the kernels that are slow (ncu), compute-sanitizer on the kernels that have shared memory,
#              and a communicator of NCCL with one rank in steps that are replayed
#   The other words are those of first.sh.
# Examples:
#   bash .gpu/second.sh A 560
#   bash .gpu/second.sh B 200 --only 'memcheck *'
set -uo pipefail
# shellcheck source=tests/gpu/parts.sh
. "$(dirname "$0")/parts.sh"
# shellcheck disable=SC2034  # parts.sh reads it
declare -A seconds_of=([A]=560 [B]=200)

# The GiB are those that a dry run plans, with two more for CUDA and its libraries.
call_A() {
  ceilings
  needs=14 bench "124m of 32" 60 --model gpt2-124m --batch 32 --steps 20
  needs=23 bench "124m of 64" 60 --model gpt2-124m --batch 64 --steps 20
  needs=23 bench "124m of 64 tuned" 90 --model gpt2-124m --batch 64 --steps 20 --tune "$work/choices"
  needs=23 bench "124m of 64 in any order" 60 --model gpt2-124m --batch 64 --steps 20 --nondeterministic
  needs=64 bench 1558m 90 --model gpt2-1558m --batch 16 --steps 8
  needs=58 bench llama-1.5b 90 --model llama-1.5b --batch 16 --steps 8
  needs=112 bench llama-7b 120 --model llama-7b --batch 8 --steps 6 --moments bf16
  needs=14 kernels_over_ceilings
  needs=50 torch_training "torch 124m" 120 --model gpt2-124m --batch 32 --steps 20 --by-blocks
  needs=100 torch_training "torch llama-1.5b" 150 --model llama-1.5b --batch 16 --steps 8 --by-blocks
}

# memcheck and others of compute-sanitizer on one selection of cases of the kernels. cuDNN's kernels are its own affair:
# racecheck does not understand how they wait for copies.
sanitize() {
  local tool=$1 name=$2 limit=$3 cases=$4
  tool_of "$tool $name" compute-sanitizer "$limit" --tool "$tool" --error-exitcode 3 \
    --kernel-regex-exclude kns=cudnn \
    "$bundle/bin/kernels_tests" -# -d yes --device "$device" "$cases"
}

# count_in NAME KERNELS COUNT: hardware counters of that many launches of kernels with such names.
count_in() {
  needs=14 tool_of "ncu $1" ncu 60 --clock-control none --set basic --section WarpStateStats \
    --section MemoryWorkloadAnalysis --launch-skip 4 -c "$3" -k "regex:$2" \
    "$bundle/bin/device_kernels" --device "$device"
}

call_B() {
  count_in norms 'backward_of_packs_kernel|column_totals' 3
  count_in softmax gradient_kernel 1
  sanitize memcheck softmax 60 "[#softmax_test][device]"
  sanitize memcheck layer_norm 60 "[#layer_norm_test][device]"
  sanitize memcheck part 60 "[#part_test][device]"
  sanitize racecheck attention 90 "attention of whole packs matches the reference around the sizes of blocks"
  ours nccl 60 "$bundle/bin/comm_tests" -# -d yes --device "$device" "[#nccl_solo_test]"
}

stage "$@"
