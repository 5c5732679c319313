#!/usr/bin/env bash
# Everything that only a machine with a GPU can prove, in parts that each have a limit of time: what the machine has,
# what the device can do at most, the suites on it, whole jobs by dslaunch (job.sh), some of the suites under
# compute-sanitizer, every kernel over its ceiling, and training beside PyTorch. Each result is a line that is printed as
# it comes and a line of JSON in OUT/results.jsonl, everything else goes to OUT/log; figures and a count of the results
# come last. What cannot run is skipped, says why, and is not counted as passed. Exits with 1 where something failed.
#
# usage: tests/gpu/run.sh [--device cuda:0 | emulated] [--bin DIR] [--out DIR] [--parts probe,ceilings,...]
#   From an unpacked bundle (pack.sh) without --bin. On the emulated device everything is tiny: that this script and
#   the programs run, and no figure to be used.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
device=cuda:0 bin=$here/../bin out=${OUT:-gpu-results}
parts=probe,ceilings,correctness,jobs,sanitizer,kernels,training,rest
while [ $# -gt 0 ]; do
  case "$1" in
    --device|--bin|--out|--parts)
      [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
[ -d "$bin" ] || { echo "run.sh: no folder $bin; name one with --bin, or unpack the bundle" >&2; exit 2; }
bin=$(cd "$bin" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
results=$out/results.jsonl log=$out/log
: > "$results"; : > "$log"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tiny=()
if [ "$device" = emulated ]; then tiny=(--tiny); fi

# Text as a string of JSON.
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\010\013-\037' | tr '\n\t' '  ' | sed 's/[\\"]/\\&/g')"; }

# result PART NAME STATUS SECONDS WHY
result() {
  printf '{"part": "%s", "name": %s, "status": "%s", "seconds": %s, "why": %s}\n' \
    "$1" "$(quoted "$2")" "$3" "$4" "$(quoted "$5")" >> "$results"
  printf '%-12s %-34s %-10s %4s s  %s\n' "$1" "$2" "$3" "$4" "$5" | tee -a "$log"
}
skipped() { result "$1" "$2" skipped 0 "$3"; }

# measure PART NAME LIMIT_S COMMAND...: lines of JSON that the command prints are figures of the part.
measure() {
  local part=$1 name=$2 limit=$3 start=$SECONDS code
  shift 3
  if [ ! -x "$1" ] && ! command -v "$1" > /dev/null; then
    skipped "$part" "$name" "there is no $1"
    return
  fi
  echo "=== $part: $name: $*" >> "$log"
  timeout -k 5 "$limit" "$@" > "$scratch/stdout" 2> "$scratch/stderr" < /dev/null
  code=$?
  cat "$scratch/stdout" "$scratch/stderr" >> "$log"
  grep '^{.*}$' "$scratch/stdout" | while read -r figures; do
    printf '{"part": "%s", "name": %s, "status": "figure", "figures": %s}\n' "$part" "$(quoted "$name")" "$figures"
  done >> "$results"
  local seconds=$((SECONDS - start))
  local last
  last=$(cat "$scratch/stdout" "$scratch/stderr" | grep -v '^ *$' | tail -1 | cut -c1-200)
  # Test programs say so where the device is absent, and steps of jobs; to the others it is an exit code as any.
  if [ $code = 77 ] && [[ "$1" != *_tests && "$1" != */job.sh ]]; then code=1; fi
  case $code in
    0) result "$part" "$name" passed "$seconds" "" ;;
    77) result "$part" "$name" skipped "$seconds" "$last" ;;
    124|137) result "$part" "$name" "timed out" "$seconds" "after $limit s" ;;
    *) result "$part" "$name" failed "$seconds" "exit $code: $last" ;;
  esac
}

# Libraries of GPUs lie wherever an installation put them.
library_path() {
  local folders=$here/../lib folder
  for folder in /usr/local/cuda*/lib64 \
      $(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2> /dev/null)/nvidia/*/lib; do
    [ -d "$folder" ] && folders=$folders:$folder
  done
  echo "$folders"
}
LD_LIBRARY_PATH=$(library_path)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
if [ -d "$here/../golden" ]; then
  DS_GOLDEN_DIR=$(cd "$here/../golden" && pwd)
  export DS_GOLDEN_DIR
fi

run_probe() {
  [ -f "$here/../manifest.json" ] && cat "$here/../manifest.json" >> "$log"
  echo "libraries: $LD_LIBRARY_PATH" >> "$log"
  measure probe libc 5 ldd --version
  if [ "$device" != emulated ]; then measure probe nvidia-smi 10 nvidia-smi; fi
  measure probe "dslaunch env" 20 "$bin/dslaunch" env
}

run_ceilings() { measure ceilings device_ceilings 60 "$bin/device_ceilings" --device "$device" "${tiny[@]}"; }

run_correctness() {
  local suite selection
  for suite in kernels model optim core comm checkpoint zero train; do
    selection="[device]"
    if [ $suite = train ]; then selection="[cuda]"; fi
    if [ "$device" = emulated ]; then  # CTest runs all of them there
      case $suite in
        kernels) selection="[#softmax_test][device]" ;;
        model) selection="[#linear_products_test][device]" ;;
        optim) selection="[#rules_test][device]" ;;
        core) selection="[#host_copy_test][device]" ;;
        comm) selection="[#solo_comm_test][device]" ;;
        checkpoint) selection="[#device_pieces_test][device]" ;;
        zero) selection="[#store_suite_test][device]" ;;
        train) selection="what the dry run plans for a device is what the device's memory is asked for" ;;
      esac
    fi
    measure correctness "$suite" 150 "$bin/${suite}_tests" -# -w NoTests --device "$device" "$selection"
  done
}

# The device of a job is --device cuda: the first GPU, or the emulated device of a build that has that one.
run_jobs() {
  local size=() text=$here/../corpus.txt step
  if [ "$device" = emulated ]; then size=(tiny); fi
  if [ ! -f "$text" ]; then text=$here/../../README.md; fi  # in a source folder
  for step in train memory resume across generate zero; do
    measure jobs "$step" 100 "$here/job.sh" "$step" "$bin" "$scratch/jobs" "$text" "${size[@]}"
  done
}

run_sanitizer() {
  local tool sanitizer
  sanitizer=$(command -v compute-sanitizer || printf "%s\n" /usr/local/cuda*/bin/compute-sanitizer | head -1)
  for tool in memcheck racecheck initcheck; do
    if [ "$device" = emulated ]; then
      skipped sanitizer "$tool" "the emulated device has sanitizers of its own (presets emulated-asan, emulated-tsan)"
    elif [ -z "$sanitizer" ]; then
      skipped sanitizer "$tool" "there is no compute-sanitizer"
    else
      measure sanitizer "$tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 3 "$bin/kernels_tests" -# \
        --device "$device" "[#softmax_test][device],[#layer_norm_test][device],[#loss_test][device]"
    fi
  done
}

run_kernels() { measure kernels device_kernels 120 "$bin/device_kernels" --device "$device" "${tiny[@]}"; }

# train MODEL BATCH
train() {
  local flags=(--model "$1" --batch "$2" --length 1024 --dtype bf16 --steps 15)
  measure training "$1" 150 "$bin/train_bench" --device "$device" --threads "$(nproc)" "${flags[@]}" "${ceiling[@]}"
  if python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())' > /dev/null 2>&1; then
    measure training "$1, torch compiled" 240 python3 "$here/../peers/torch_device_train.py" --device "$device" \
      "${flags[@]}" "${ceiling[@]}"
  else
    skipped training "$1, torch compiled" "python3 has no torch that finds a GPU"
  fi
}

run_training() {
  local product
  product=$(grep -o '"product_tflop_s": [0-9.]*' "$results" | head -1 | cut -d' ' -f2)
  ceiling=()
  if [ -n "$product" ]; then ceiling=(--ceiling-tflop-s "$product"); fi
  if [ "$device" = emulated ]; then
    measure training tiny 60 "$bin/train_bench" --device emulated --model tiny --batch 1 --length 8 --dtype bf16 \
      --steps 1 --no-graphs --tune "$scratch/choices"
    return
  fi
  train gpt2-124m 32
  local variant flags=(--model gpt2-124m --batch 32 --length 1024 --dtype bf16 --steps 15)
  for variant in --no-graphs "--tune $scratch/choices"; do
    # shellcheck disable=SC2086  # an option and its value
    measure training "gpt2-124m ${variant%% *}" 100 "$bin/train_bench" --device "$device" --threads "$(nproc)" \
      "${flags[@]}" $variant "${ceiling[@]}"
  done
  train gpt2-1558m 16
  train llama-1.5b 16
  train llama-7b 8
}

run_rest() {
  skipped rest "7B with its state on the host" "nothing is offloaded from a GPU yet"
  skipped rest "stall of a checkpoint" "checkpoint_bench computes on the CPU alone"
}

for part in ${parts//,/ }; do
  if ! declare -F "run_$part" > /dev/null; then
    echo "run.sh: no part '$part'; there are probe, ceilings, correctness, jobs, sanitizer, kernels, training, rest" >&2
    exit 2
  fi
done
for part in ${parts//,/ }; do "run_$part"; done

# Figures, shortened, and a count.
sed -nE 's/^\{"part": "([^"]*)", "name": "(([^"\\]|\\.)*)", "status": "figure", "figures": \{(.*)\}\}$/\1|\4/p' \
  "$results" | awk -F'|' '{ printf "%-12s %s\n", $1, $2 }' | tee -a "$log"
awk -F'"status": "' '{ split($2, said, "\""); ++of[said[1]] }
  END { printf "%d passed, %d failed, %d timed out, %d skipped\n", of["passed"], of["failed"], of["timed out"], of["skipped"] }
  ' "$results" | tee -a "$log"
! grep -qE '"status": "(failed|timed out)"' "$results"
