# What a person sees on a terminal (a pty of python's): the losses stay when the run is over, and nothing there is
# written for machines. With --json a program gets one JSON document on standard output, also where it fails.
. "$(dirname "$0")/launcher.sh"

# on_terminal <file> <command...>: standard output and error are one terminal, whose bytes go to the file. The exit code
# is the command's.
on_terminal() {
  local file=$1
  shift
  python3 - "$file" "$@" << 'PY'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1], "wb") as out:
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the last of them has gone
            break
        if not data:
            break
        out.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
}
# What is left on the screen: each line as the last carriage return or erasure left it.
screen() { tr -d '\r' < "$1" | sed -e 's/.*\x1b\[K//' -e 's/\x1b\[[0-9;]*m//g'; }

on_terminal bytes dslaunch train.json --num-ranks 2 || fail "the run on a terminal"
screen bytes > out
grep -q '^step 5/5  loss [0-9.]*  lr ' out || fail "the last step does not stay"
grep -q '^ *{' out && fail "JSON on a terminal"

FAKE_RANK="rank=1 at=2 do=crash steps=500" on_terminal bytes dslaunch train.json --num-ranks 2 --max-restarts 1
[ $? -eq 76 ] || fail "the failing run on a terminal"
screen bytes > out
expect_text out "rank 1 was killed by signal 11"
grep -q '"event"' out && fail "JSON before the words on a terminal"
[ "$(grep -c '^step [12]/500  loss ' out)" -ge 1 ] || fail "the last step of a failed run does not stay"

# A screen for `top`, behind which the terminal's own comes back, with what was seen last.
dslaunch train.json --num-ranks 2 --run-dir runs/over > out 2> err || fail "the run for top"
LC_ALL=C.UTF-8 TERM=xterm NO_COLOR= on_terminal bytes dslaunch top runs/over || fail "top on a terminal"
grep -q $'\x1b\\[?1049h.*' bytes && grep -q $'\x1b\\[?1049l' bytes || fail "top has no screen of its own"
grep -q $'\x1b\\[38;5;' bytes || fail "top has no colours on a terminal that has them"
tr -d '\r' < bytes | sed -e 's/.*\x1b\[?1049l//' -e 's/\x1b\[[0-9;]*m//g' > out
expect_text out "step 5/5  ██"
expect_text out "steps 1-5"
LC_ALL=C TERM=xterm NO_COLOR=1 on_terminal bytes dslaunch top runs/over || fail "top without colours"
grep -q $'\x1b\\[[0-9;]*m' bytes && fail "colours where NO_COLOR is set"
LC_ALL=C grep -q '[^ -~[:cntrl:]]' bytes && fail "more than ASCII where the locale has no more"
expect_text bytes "step 5/5  ##"

# is_json <file> <python expression over j>: the file is one JSON document, for which it holds.
is_json() {
  python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else 1)' "$@" 2> /dev/null ||
    fail "$1: not JSON for which $2"
}
expect 0 train.json --num-ranks 1 --json --run-dir runs/j
is_json out 'j["exit_code"] == 0'
FAKE_RANK="rank=0 at=2 do=data" expect 65 train.json --num-ranks 1 --json
is_json out 'j["exit_code"] == 65'
expect 66 nosuch.json --json
is_json out 'j["error"]["exit_code"] == 66 and "nosuch.json" in j["error"]["message"]'
expect_text err "error: "
expect 2 stauts --json
is_json out 'j == {"error": {"message": j["error"]["message"], "exit_code": 2}}'
expect 2 status --jsn
[ -s out ] && fail "something on standard output without --json"
expect 66 status nowhere --json
is_json out '"nowhere" in j["error"]["message"]'
expect 65 train.json --json --hostfile /dev/null
is_json out 'j["error"]["exit_code"] == 65'
expect 0 explain train.json --json
is_json out '{"path", "value", "origin"} == set(j["values"][0]) and j["errors"] == []'
expect 0 explain train.json optimizer.type --json
is_json out '[v["value"] for v in j["values"]] == ["AdamW"]'
expect 2 explain train.json optimzer --json
is_json out 'j["error"]["exit_code"] == 2'
expect 78 explain train.json train_batch_size=-1 --json
is_json out 'len(j["errors"]) == 1'
expect 0 status runs/j --json
is_json out 'j["exit_code"] == 0 or j["phase"]'
expect 0 top runs/j --json
is_json out 'j["phase"]'
dslaunch tail runs/j --json > lines || fail "tail --json"
python3 - lines << 'PY' || fail "tail --json: $(head -3 lines)"
import json, sys
for line in open(sys.argv[1]):
    one = json.loads(line)
    assert set(one) == {"ranks", "time", "text"}, one
PY
expect 0 schema --json
is_json out '"properties" in j'
expect 2 schema --json --markdown
expect 0 completion bash --json
is_json out 'j["shell"] == "bash" and "complete -F" in j["script"]'
expect 0 man status --json
is_json out '[p["name"] for p in j["pages"]] == ["dslaunch-status.1"]'

FAKE_RANK="steps=100000 step_ms=5" dslaunch train.json --num-ranks 2 --run-dir runs/long > job.out 2> job.err &
launcher=$!
wait_until "the first step" test -s runs/long/metrics.jsonl || finish
LC_ALL=C TERM=dumb on_terminal bytes dslaunch top runs/long -n 2 || fail "top of a run that goes on"
expect_text bytes "rank  host"
expect 0 stack runs/long --json
is_json out '[r["rank"] for r in j["ranks"]] == [0, 1] and j["generation"] == 1'
expect 0 ctl save runs/long --json
is_json out 'j["notice"] and j["status"]["phase"]'
expect 0 ctl stop runs/long --json
wait "$launcher"

finish
