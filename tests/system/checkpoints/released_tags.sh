# The tag of every release (tests/golden/tags) is gone on from: to the losses that the release had behind it, as one rank,
# two, and with parameters partitioned.
tags=$(realpath "$2")
source "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD

# goes_on <release> <words...>
goes_on() {
  local release=$1 at
  shift
  rm -rf run && mkdir -p run/checkpoints
  cp -r "$tags/$release/global_step3" run/checkpoints/
  cp "$tags/$release/train.json" "$tags/$release/corpus.txt" .
  expect 0 train.json --run-dir run --resume required "$@"
  sed -n '4,$s/.*"loss": *\([^,}]*\).*/\1/p' run/metrics.jsonl > losses.txt  # the tag brings those before
  at=$(paste losses.txt "$tags/$release/losses.txt" | awk '
    NF != 2 || $1 - $2 > 2e-3 * $2 || $2 - $1 > 2e-3 * $2 { print "step " NR + 3 ": " $1 " instead of " $2 }')
  [ -z "$at" ] && [ "$(wc -l < losses.txt)" -eq 3 ] || fail "$release, $*: $at ($(wc -l < losses.txt) steps)"
}

for folder in "$tags"/*/; do
  release=$(basename "$folder")
  goes_on "$release" --num-ranks 2
  goes_on "$release" --num-ranks 1
  goes_on "$release" --num-ranks 2 zero_optimization.stage=3
done
[ -n "${release:-}" ] || fail "there is no release in $tags"
finish
