# The recipes of examples/fine-tuning, as their README has them, to their end.
example=$(readlink -f "$(dirname "$0")/../../../examples/fine-tuning")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
# The folder of the model is named from where the files lie, so they stay there, and runs are here.
expect 0 look-at-data "$example/chat.json" --count 2
expect_text out "learnt"
expect 0 plan "$example/chat.json"
expect 0 "$example/chat.json" --run-dir chat
expect_text out "the least validation loss"
expect_text out "What color is "
[ -s chat/final/adapter_model.safetensors ] || fail "no adapters are there"
expect 0 merge chat chat_model
expect 0 "$example/preferences.json" --run-dir preferred "model=$PWD/chat_model"
last=$(sed -n 's/.*"reward_accuracy": \([-+.0-9e]*\)[,}].*/\1/p' preferred/metrics.jsonl | tail -1)
awk "BEGIN { exit !($last == 1) }" || fail "after 20 steps the share of pairs that are right is $last"
expect 0 generate preferred/final --chat --prompt "What color is the sky?" --max-tokens 8
grep -q "dslaunch generate preferred/final --chat" "$example/README.md" || fail "the README says something else"
finish
