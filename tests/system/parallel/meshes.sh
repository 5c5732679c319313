# Sourced by the tests of meshes: real ranks over a text, and whether two runs end alike.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt
loss() { sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$1/metrics.jsonl" | tail -1; }
close() {  # close <run> <run>: their last losses
  awk -v a="$(loss "$1")" -v b="$(loss "$2")" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (0.0001 * b) ^ 2) }' ||
    fail "$1 ends with loss $(loss "$1"), $2 with $(loss "$2")"
}
