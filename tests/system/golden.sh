#!/usr/bin/env bash
# The golden PyTorch runs, by dslaunch: stages 0-3, 1, 2 and 4 ranks, with and without accumulation.
# usage: golden.sh BIN_DIR GOLDEN_DIR [ARGUMENTS]     skipped (77) without the golden folder
# ARGUMENTS are given to every run, such as --device cuda. RANKS, ACCUMULATIONS and STAGES in the environment are
# those of the runs, where not all are wanted.
set -u
bin=$1 golden=$2
shift 2
here=$(dirname "$(readlink -f "$0")")
[ -d "$golden" ] || { echo "no $golden: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for folder in "$golden"/*/; do
  name=$(basename "$folder")
  batch=$(sed -n 's/.*"train_batch_size": *\([0-9]*\).*/\1/p' "$folder/train.json")
  for ranks in ${RANKS:-1 2 4}; do
    for accumulation in ${ACCUMULATIONS:-1 2}; do
      [ $((batch % (ranks * accumulation))) -eq 0 ] || continue
      reference=
      for stage in ${STAGES:-0 1 2 3}; do
        run=$work/$name-n$ranks-a$accumulation-s$stage
        "$bin/dslaunch" "$folder/train.json" "+zero_optimization.stage=$stage" \
          "+gradient_accumulation_steps=$accumulation" --num-ranks $ranks --num-threads 1 \
          --run-dir "$run" "$@" >"$run.log" 2>&1 || { echo "$run ended with $?"; tail -5 "$run.log"; failed=1; continue; }
        python3 "$here/golden.py" "$folder" "$run" $reference || failed=1
        case $name in *fp32*) [ -n "$reference" ] || reference=$run ;; esac
      done
      rm -rf "$work"/*
    done
  done
done
exit $failed
