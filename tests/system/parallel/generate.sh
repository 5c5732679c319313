# Generation by ranks that are stages of the model: the text of one process to the byte, from a run and from a folder,
# with prompts of all kinds; what cannot be is refused before anything starts; a rank that dies ends all with one error,
# and nothing is left behind.
. "$(dirname "$0")/meshes.sh"
mkdir tmp && export TMPDIR=$PWD/tmp
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 3, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 20}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 1}}
JSON
expect 0 train.json --num-ranks 2 --run-dir run +pipeline.stages=2
left() {
  local pid
  ls "$TMPDIR"
  for pid in $(pgrep -fx "$bin/rankd --from-stdin"); do
    [ "$(readlink "/proc/$pid/cwd" 2> /dev/null)" = "$scratch" ] && echo "$pid"
  done
}
nothing_left() { [ -z "$(left)" ]; }

same() { # same <ranks> <words...>: as one process prints
  local ranks=$1
  shift
  expect 0 generate run --max-tokens 50 "$@" < prompts && mv out alone
  expect 0 generate run --max-tokens 50 --num-ranks "$ranks" --num-threads 1 "$@" < prompts
  cmp -s alone out || fail "$ranks ranks: another text for $*"
  [ -s err ] && ! grep -q "^note" err && fail "$ranks ranks: something was said beside the text"
  nothing_left || fail "$ranks ranks: left are $(left)"
}
printf 'first\n\nsecond 22\n333' > prompts
same 2 --prompt 12 --temperature 0
same 2 --prompt 12 --prompt 34 --prompt 5 --seed 9
same 3 --lines --stop 7
same 5 --lines --top-p 0.9 --dtype bf16
same 2
same 2 --prompt $'\xff\x00-' --prompt - --lines
# One slot is one stage.
echo "localhost slots=1" > hosts
expect 0 generate run --prompt 12 --seed 3 && mv out alone
expect 0 generate run --prompt 12 --seed 3 --hostfile hosts
cmp -s alone out || fail "one slot: another text"
# The folder that the run has exported says the same as the run; --json says it, too.
expect 0 generate run/final --tokenizer byte --prompt 12 --prompt 3 --num-ranks 3 --json --max-tokens 40 && mv out folder
expect 0 generate run --prompt 12 --prompt 3 --json --max-tokens 40
python3 - <<'PY' || fail "--json of ranks differs"
import json
texts = [[{k: v for k, v in json.loads(line).items() if "s" != k[-1:] or k in ("tokens", "ids")} for line in open(name)] for name in ("folder", "out")]
assert len(texts[0]) == 2 and texts[0] == texts[1] and texts[0][1]["prompt"] == "3", texts
PY

# Nothing is started of what cannot be.
refused() { # refused <code> <text> <words...>
  local code=$1 words=$2
  shift 2
  expect "$code" generate "$@" < /dev/null
  expect_text err "$words"
  [ "$(wc -l < err)" -eq 1 ] || fail "$*: more than one line"
  [ -s out ] && fail "$*: something was printed"
  nothing_left || fail "$*: left are $(left)"
}
refused 2 "6 ranks, and the model has 5 layers" run --prompt a --num-ranks 6
refused 66 "is no run directory, checkpoint tag or Hugging Face folder" nowhere --prompt a --num-ranks 2
refused 2 "the prompt is 40 tokens, the model has 32 positions" run --prompt "$(printf '%040d' 0)" --num-ranks 2
refused 2 "the prompt is empty" run --num-ranks 2
refused 2 "--stop: the text is empty" run --prompt a --stop "" --num-ranks 2

# A rank that dies: one error, no half of a text that claims to be whole, and the logs stay to be looked at.
for rank in 0 1 2; do
  point=generate.boundary_received
  [ $rank = 0 ] && point=generate.asked
  DSL_FAILPOINTS="$point@rank$rank=5*off->kill" timeout 60 dslaunch generate run --prompt 12 --num-ranks 3 > out 2> err
  got=$?
  [ $got -eq 137 ] || fail "rank $rank was killed: exit code $got"
  expect_text err "rank $rank was killed"
  [ "$(grep -c "^error" err)" -eq 1 ] || fail "rank $rank was killed: not one error"
  [ -s "$(ls -d tmp/dslaunch-generate-*/logs/rank-$rank.log)" ] || fail "the log of rank $rank is gone"
  rm -rf tmp/dslaunch-generate-*
done

# Ctrl-C ends it at once, and nothing is worth a look.
rm out
: > out
DSL_FAILPOINTS="generate.asked=sleep(200)" dslaunch generate run --prompt 12 --num-ranks 2 --max-tokens 10000 > out 2> err &
launcher=$!
wait_until "a text" test -s out
kill -INT $launcher
expect_end 130
wait_until "an end of all ranks" nothing_left

# Started by mpirun, one for each stage.
if command -v mpirun > /dev/null; then
  expect 0 generate run --prompt 12 --seed 4 && mv out alone
  timeout 60 mpirun --allow-run-as-root --oversubscribe -n 2 dslaunch generate run --prompt 12 --seed 4 --num-ranks 2 > out 2> err ||
    fail "mpirun: exit code $?"
  cmp -s alone out || fail "mpirun: another text"
fi
finish
