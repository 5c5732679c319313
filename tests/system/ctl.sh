# Looking at a running job and steering it: status, ctl, stack, tail, top, the Prometheus file; and what
# status says of runs that are over.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD

seq 1 4000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 100000}, "train_batch_size": 4, "steps_per_print": 1000,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON

# Its own files for what the job says: `expect` writes out and err meanwhile.
start() {
  rm -rf run
  dslaunch train.json --run-dir run "$@" > job.out 2> job.err &
  launcher=$!
  wait_until "the first step" test -s run/metrics.jsonl || finish
  mapfile -t ranks < <(pgrep -P "$launcher")
}

# field <python expression over s>: of the run's status.
field() { dslaunch status run --json | python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"; }
is_field() { [ "$(field "$1")" = "$2" ]; }
steps() { wc -l < run/metrics.jsonl; }
more_steps_than() { [ "$(steps)" -gt "$1" ]; }

expect 66 status run
expect_text err "no run in run"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start --metrics-textfile job.prom --metrics-listen "127.0.0.1:$port" --num-ranks 2
expect_text job.out "metrics at http://127.0.0.1:$port/metrics"
python3 - "$port" > scraped <<'PY' || fail "scraping: $(cat scraped)"
import sys, urllib.error, urllib.request
base = f"http://127.0.0.1:{sys.argv[1]}"
with urllib.request.urlopen(base + "/metrics", timeout=10) as reply:
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply.headers
    print(reply.read().decode())
assert urllib.request.urlopen(base + "/healthz", timeout=10).read() == b"ok\n"
for path, data, code in ("/", None, 404), ("/metrics", b"x", 405):
    try:
        urllib.request.urlopen(base + path, data, timeout=10)
        raise SystemExit(f"{path} is answered")
    except urllib.error.HTTPError as error:
        assert error.code == code, error
PY
expect_text scraped 'dslaunch_running{run="run"} 1'
ss -Hltn | grep ":$port " | grep -q "127.0.0.1:$port" || fail "it listens elsewhere than on 127.0.0.1"
wait_until "running" is_field 's["phase"]' running
is_field 'len(s["ranks"]), s["ranks"][1]["state"]' "2 alive" || fail "ranks: $(field 's["ranks"]')"
is_field 's["launcher_pid"]' "$launcher" || fail "the launcher's pid"
expect 0 status run
expect_text out "running, generation 1"
expect 0 top run
expect_text out "running, generation 1"
expect 0 status run --prometheus
expect_text out '# TYPE dslaunch_step gauge'
expect_text out 'dslaunch_rank_up{run="run",rank="1",host='
wait_until "the Prometheus file" grep -q 'dslaunch_running{run="run"} 1' job.prom
expect 2 ctl dance run

# Paused: no step is made, nobody counts as hung, checkpoints still work.
expect 0 ctl pause run
wait_until "the pause" is_field 's["phase"]' paused
paused=$(steps)
sleep 1.5
[ "$(steps)" -eq "$paused" ] || fail "steps went on while paused"
expect 0 ctl pause run
expect_text out "paused already"
expect 0 ctl save run
wait_until "a checkpoint while paused" is_field 's["last_committed"] and s["last_committed"]["step"]' "$paused"
expect 0 ctl resume run
wait_until "steps after the pause" more_steps_than "$paused"
expect 0 ctl save run
wait_until "a checkpoint" is_field "s['last_committed']['step'] > $paused" True

expect 0 stack run
expect_text out "rank 1 (pid"
expect_text out "collectives, the newest last:"
expect_text out "ds::"
expect_text run/logs/rank-0.log "=== dump ends"
expect 0 tail run -n 5
expect_text out "[1] "

# A rank that stands still: named, with the collective it was last seen at, and what the kernel says.
kill -STOP "${ranks[1]}"
sleep 0.3
expect 0 stack run
kill -CONT "${ranks[1]}"
expect_text out "did not answer within 3 s"
expect_text out "T (stopped)"
grep -q "rank [01] has not answered for .*of \(data\|host\)" out || fail "no verdict on the rank that was stopped"

expect 0 ctl stop run
expect_end 75
expect 0 status run
expect_text out "stopped with code 75"
expect_text job.prom 'dslaunch_running{run="run"} 0'
expect 66 ctl save run
expect_text err "does not run any more"

# Stopped while paused.
start --num-ranks 2
expect 0 ctl pause run
wait_until "the pause" is_field 's["phase"]' paused
expect 0 ctl stop run
expect_end 75

# Killed: nothing left, and status says so.
start --num-ranks 2
dslaunch tail run -f > followed &
follower=$!
expect 0 ctl save run
wait_until "a checkpoint" is_field 's["last_committed"] is not None' True
kill -KILL "$launcher"
wait "$launcher" 2> /dev/null
wait "$follower" || fail "tail -f did not end with the run"
[ -s followed ] || fail "tail -f said nothing"
expect 1 status run
expect_text out "killed"
expect_text out "goes on from global_step"

finish
