# A text that is large enough to be kept: one process of the host tokenises it, the others wait; what a run has made
# when it is killed is there for the next; later runs find all of it; and training is the same as from memory.
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
. "$source_dir/tests/system/launcher.sh"
unset DSLAUNCH_RANKD
export XDG_CACHE_HOME=$scratch/cache
cp "$source_dir/tests/data/tokenizer/golden/gpt2.json" tokenizer.json

cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 1024},
 "data": {"train": ["corpus.txt"], "tokenizer": "tokenizer.json", "sequence_length": 32},
 "train": {"steps": 3}, "train_batch_size": 8, "steps_per_print": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON
python3 - <<'PY'
words = "in the beginning was word and light shone darkness it 1234 not,\n".split(" ")
state = 1
with open("corpus.txt", "w") as out:
    for _ in range(40):  # of a MiB: two segments and a part of one
        line = []
        for _ in range(190_000):
            state = state * 1103515245 + 12345 & 0x7fffffff
            line.append(words[(state >> 16) % len(words)])
        out.write(" ".join(line)[: 1 << 20])
PY
expect 0 plan train.json --num-ranks 2 --num-threads 1
expect_text out "tokenizing    32.00 MiB in one process of each host, before training"
segments() { find cache -name '*.tokens' 2>/dev/null | wc -l; }
losses() {
  python3 -c 'import json, sys; print([(m["step"], m["loss"]) for m in map(json.loads, open(sys.argv[1]))])' \
    "$1/metrics.jsonl"
}

# Killed with all it started, as by a node that goes away.
: > out
setsid dslaunch train.json --num-ranks 2 --run-dir killed > out 2> err &
launcher=$!
wait_at_most 60 "the first segment" sh -c '[ -n "$(find cache -name "*.tokens" 2>/dev/null)" ]'
kill -KILL -- "-$launcher"
wait "$launcher" 2>/dev/null
pkill -KILL -f "$scratch/killed" || true
first=$(find cache -name '000000.tokens')
made_at=$(stat -c %y "$first")
[ ! -s killed/metrics.jsonl ] || fail "the run that was to be killed while it tokenised has trained"

expect 0 train.json --num-ranks 2 --run-dir again
[ "$(grep -c 'corpus.txt: .* tokens of .* in ' out)" -eq 1 ] || fail "not one process has tokenised"
[ "$(stat -c %y "$first")" = "$made_at" ] || fail "what the killed run had made was made anew"
[ "$(segments)" -ge 2 ] || fail "$(segments) segments, expected more"

expect 0 train.json --num-ranks 2 --run-dir later
expect_text out "corpus.txt: "
expect_text out ", kept from before"
expect 0 train.json data.cache_folder= --num-ranks 2 --run-dir memory
[ "$(grep -c 'corpus.txt' out)" -eq 0 ] || fail "a run without a cache speaks of one"
for run in later memory; do
  [ "$(losses "$run")" = "$(losses again)" ] || fail "$run has other losses than the run that tokenised"
done

# Nothing can be made there: memory where nobody asked for the folder, an error where somebody did.
touch file
XDG_CACHE_HOME=$scratch/file expect 0 train.json --num-ranks 1 --run-dir no_cache
expect_text out "each rank holds all token ids in memory"
expect 78 train.json data.cache_folder=file/inside --num-ranks 1 --run-dir refused
expect_text err "data.cache_folder"
finish
