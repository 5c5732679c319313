#!/usr/bin/env bash
# Preflight over two hosts by ssh: everything that is wrong with any of them in one report, before anything runs.
# Each fault is an sshd of its own that puts the agent into worse surroundings.
source "$(dirname "$0")/hosts.sh"
command -v unshare > /dev/null || skip "unshare is missing"

expect_on_hosts() {  # expect_on_hosts <code> <verb and words...>
  local want=$1 got
  shift
  timeout 100 ip netns exec "$here" "$bin/dslaunch" "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "dslaunch $*: exit code $got, expected $want"
}
expect_no_text() { grep -qF -- "$2" "$1" && fail "$1 contains: $2"; }

export DSLAUNCH_RANKD="$bin/rankd"
seq 4000 > corpus.txt

# All well: one line, nothing left behind.
expect_on_hosts 0 preflight "${by_ssh[@]}" train.json
expect_text out "preflight: 2 hosts can be used"
[ "$(wc -l < out)" -eq 1 ] || fail "a report of more than a line although all is well"
expect_on_hosts 0 preflight "${by_ssh[@]}" --json
python3 - out <<'PY' || fail "not the JSON that it should be"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ok"] and len(report["hosts"]) == 2, report
for host in report["hosts"]:
    assert host["ok"] and host["findings"] == [] and host["facts"]["cores"] > 0, host
    assert abs(host["clock_offset_s"]) < 0.5, host
PY
expect_on_hosts 0 preflight train.json --num-ranks 2
expect_text out "preflight: 1 host can be used"
[ -z "$(find . -name '.dslaunch-preflight*')" ] || fail "files of a preflight are left"

# fault <name> <host 0|1> <port> <shell words that end in exec>: a host whose agent starts in other surroundings.
fault() {
  local name=$1 i=$2 port=$3 words=$4
  printf '#!/bin/sh\n%s\n' "$words" > "$name.sh"
  chmod +x "$name.sh"
  { echo "Port $port"; cat "ssh/sshd$i.conf"; echo "ForceCommand $scratch/$name.sh"; } > "ssh/$name.conf"
  ip netns exec "${nodes[$i]}" /usr/sbin/sshd -D -e -f "$scratch/ssh/$name.conf" 2> "ssh/$name.log" &
  printf 'Host %s\n  HostName %s\n  Port %s\n  HostKeyAlias %s\n' "$name" "${addresses[$i]}" "$port" \
    "${addresses[$i]}" | cat - ssh/config > ssh/more && mv ssh/more ssh/config
}
reached() { ip netns exec "$here" ssh -F ssh/config -o BatchMode=yes "$1" true < /dev/null 2>&1 | grep -q .; [ "${PIPESTATUS[0]}" -ne 255 ]; }

fault tiny 0 2301 'exec unshare -m sh -c "mount -t tmpfs -o size=64k tmpfs /dev/shm; ulimit -n 100; exec $SSH_ORIGINAL_COMMAND"'
fault apart 1 2302 "mkdir -p '$scratch/runs'; exec unshare -m sh -c \"mount -t tmpfs tmpfs '$scratch/runs'; exec \$SSH_ORIGINAL_COMMAND\""
mkdir -p other runs
# The first letters only: compilers cut short texts into pieces of eight.
build=$("$bin/rankd" --version | sed 's/^rankd [0-9.]*[+ ]*//' | cut -c1-8)
swapped=$(printf '%s' "$build" | tr '0-9a-z' '1-90b-za')
LC_ALL=C sed "s/$build/$swapped/g" "$bin/dslaunch" > other/dslaunch
chmod +x other/dslaunch
other/dslaunch --version | grep -qF -- "$swapped" || fail "no other build could be made"
fault older 0 2303 "exec '$scratch/other/dslaunch' agent"
names=(tiny apart older)
if command -v cc > /dev/null; then
  cat > ahead.c <<'C'
#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, which, now);
  if (which == CLOCK_REALTIME) now->tv_sec += 3600;
  return (int)result;
}
C
  cc -shared -fPIC -o ahead.so ahead.c
  fault ahead 1 2304 "export LD_PRELOAD='$scratch/ahead.so'; exec \$SSH_ORIGINAL_COMMAND"
  names+=(ahead)
fi
for name in "${names[@]}"; do
  wait_until "sshd of $name" reached "$name" || { cat ssh/*.log; finish; }
done
printf '%s slots=2\n' "${addresses[@]}" "${names[@]}" "$net.9" > bad
by_bad=(--hostfile bad --launcher ssh --launcher-args "-F $scratch/ssh/config -o ConnectTimeout=3")
ip -n "${nodes[0]}" route add unreachable "${addresses[1]}/32"

expect_on_hosts 69 preflight "${by_bad[@]}" --run-dir runs/one
expect_text out "cannot be used"
expect_text out "$net.9"
expect_text out "reachable: ssh exited with code 255"
expect_text out "reachable: has another build of dslaunch"
expect_text out "shared memory: /dev/shm has"
expect_text out "open files: 100 open files are allowed"
expect_text out "fix: \`ulimit -n"
expect_text out "shared folder: $scratch/runs"
expect_text out "ports: it cannot connect to"
[ -e ahead.so ] && expect_text out "clock: its clock is 3600."
ip -n "${nodes[0]}" route del unreachable "${addresses[1]}/32"

# The short form before a run finds the same, and leaves no run directory.
export DSLAUNCH_RANKD="$bin/fake_rank"
printf '%s slots=2\n' tiny apart "${addresses[1]}" > bad
rm -rf run
expect_on_hosts 69 "${by_bad[@]}" train.json train_batch_size=12 --run-dir runs/one
for text in "shared memory: /dev/shm has" "open files: 100" "shared folder: $scratch/runs" "ok: ${addresses[1]}"; do
  expect_text err "$text"
done
[ -e runs/one ] && fail "a run directory was made although hosts were bad"
expect_no_text err "event"

# A host that joins later is looked at before it gets ranks, and the run goes on without it.
printf '%s slots=2\n' "${addresses[1]}" > bad
: > out
ip netns exec "$here" "$bin/dslaunch" train.json --run-dir runs/two "${by_bad[@]}" --nodes 1:2 \
  --env FAKE_RANK="steps=100000 step_ms=20" > out 2> err &
launcher=$!
wait_until "the first step" test -s runs/two/metrics.jsonl || finish
printf 'tiny slots=2\n' >> bad
ip netns exec "$here" "$bin/dslaunch" ctl join runs/two > joined 2>&1 || fail "ctl join: $(cat joined)"
wait_until "the verdict" grep -qF "shared memory: /dev/shm has" out || finish
expect_text out "open files: 100 open files are allowed"
wait_until "the run without it" grep -q "generation [23]: rank 1 is" runs/two/logs/dslaunch.log
kill -TERM "$launcher"
expect_end 75

[ -z "$(find . -name '.dslaunch-preflight*')" ] || fail "files of a preflight are left"
wait_until "an empty cluster" nobody_left
finish
