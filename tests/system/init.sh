# A first train.json: by options, and by answers on a terminal. What it writes passes `check` and trains at once.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
rm train.json
seq 20000 > corpus.txt

# Nothing is asked where there is no terminal, and nothing is overwritten.
expect 2 init < /dev/null
expect_text err "--data is needed"
[ -e train.json ] && fail "a file without data was written"
expect 2 init --data nowhere.txt
expect_text err "there is no nowhere.txt"
printf 'PAR1abcdPAR1' > table.parquet
expect 78 init --data table.parquet
expect_text err "data.train"
expect 66 init --data 'nothing/*.txt'
[ -e train.json ] && fail "a file was written for data that cannot be read"
expect 0 init --data corpus.txt --model tiny --sequence-length 32 --steps 3
expect_text out "wrote train.json"
cp train.json first.json
expect 2 init --data corpus.txt --steps 9
expect_text err "--force"
cmp train.json first.json || fail "an existing file was changed"
expect 0 check train.json
expect_text out "no errors, no notes"
expect 0 train.json --num-ranks 2 --run-dir run
expect_text out "done: 3 steps"
[ "$(grep -c '^ *//' train.json)" -ge 8 ] || fail "there are hardly any comments"

# On from the model that came out, in bf16; paths are relative to the file, and runs/latest moves.
mkdir -p runs conf && ln -sfn "$PWD/run" runs/latest
expect 0 init --data corpus.txt --model runs/latest/final --precision bf16 --zero-stage 3 --steps 3 \
  --output conf/tune.json --json
python3 - <<'PY' || fail "--json: $(cat out)"
import json
said = json.load(open("out"))
assert said["output"] == "conf/tune.json" and said["data"] == ["../corpus.txt"], said
assert (said["model"], said["tokenizer"]) == ("../run/final", "byte"), said
assert (said["precision"], said["zero_stage"], said["steps"], said["sequence_length"]) == ("bf16", 3, 3, 32), said
PY
expect 0 check conf/tune.json
expect 0 conf/tune.json --num-ranks 2 --run-dir tuned
expect_text out "done: 3 steps"
expect 2 init --data corpus.txt --model runs/latest/final --sequence-length 64 --force
expect_text err "from 2 to 32"

# Answers, among them one that is refused.
cat > talk.py <<'PY'
import os, pty, sys
answers = [b"corpus.txt\n", b"smal\n", b"tiny\n", b"\n", b"32\n", b"\n", b"fp32\n", b"1\n", b"3\n"]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("dslaunch", ["dslaunch", "init", "--output", "asked.json"])
seen = b""
while True:
    try:
        got = os.read(terminal, 4096)
    except OSError:  # the other side has closed it
        break
    if not got:
        break
    seen += got
    if got.rstrip(b" ").endswith(b":") and answers:
        os.write(terminal, answers.pop(0))
sys.stdout.write(seen.decode())
assert not answers, answers
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
timeout 60 python3 talk.py > out 2> err || fail "answers on a terminal"
expect_text out "did you mean small?"
expect_text asked.json '"steps": 3'
expect 0 check asked.json
expect_text out "no errors, no notes"
expect 0 asked.json --num-ranks 2 --run-dir asked
expect_text out "done: 3 steps"
# The end of the input is no answer.
script -qec "dslaunch init --output half.json" /dev/null < /dev/null > out 2>&1
[ -e half.json ] && fail "a file was written from no answers"

finish
