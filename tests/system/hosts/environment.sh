#!/usr/bin/env bash
# What .deepspeed_env says, at home and here, as the ranks of two hosts have it: read as the shell of each host would,
# and never carried out.
source "$(dirname "$0")/hosts.sh"

there=$(ip netns exec "$here" ssh -F ssh/config -o BatchMode=yes "${addresses[0]}" 'echo "$HOME"' 2> /dev/null)
mkdir home
export HOME=$scratch/home FAKE_RANK="steps=100000 step_ms=20"
cat > home/.deepspeed_env <<'ENV'
ONLY_HOME=1
IN_BOTH=home
ENV
printf '\357\273\277# for all ranks\r\n' > .deepspeed_env
cat >> .deepspeed_env <<'ENV'

IN_BOTH=here
LIBS=/opt/x:$HOME
PLACE=~/models
EMPTY=""
WORDS="a b" c
export MORE=${LIBS}:end
BAD=$(touch carried-out)
ENV
start_on_hosts "${by_ssh[@]}" --env FAKE_RANK --env 'OPTION=$HOME "x"'
expect_text out ".deepspeed_env:9: BAD has"
for pid in $(on_hosts fake_rank); do
  tr '\0' '\n' < "/proc/$pid/environ" > environ
  for entry in ONLY_HOME=1 IN_BOTH=here "LIBS=/opt/x:$there" "PLACE=$there/models" EMPTY= "WORDS=a b c" \
    "MORE=/opt/x:$there:end" 'BAD=$(touch carried-out)' 'OPTION=$HOME "x"'; do
    grep -qxF -- "$entry" environ || fail "a rank lacks $entry: $(grep "^${entry%%=*}=" environ)"
  done
done
[ "$(on_hosts fake_rank | wc -l)" -eq 4 ] || fail "expected 4 ranks"
[ -e carried-out ] || [ -e "$there/carried-out" ] && fail "a value was carried out"
kill -INT "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left

# Another name for it, and a name that is none.
echo OTHER=1 > other_env
DS_ENV_FILE=other_env start_on_hosts "${by_ssh[@]}" --env FAKE_RANK
for pid in $(on_hosts fake_rank); do
  tr '\0' '\n' < "/proc/$pid/environ" > environ
  grep -qx OTHER=1 environ || fail "a rank lacks OTHER"
  grep -q ^IN_BOTH= environ && fail "a rank has what another file says"
done
kill -INT "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left

# A file of one's own is taken as it is.
printf '%s\n' 'LIBS=/opt/x:$HOME' 'EMPTY=""' > own.env
start_on_hosts "${by_ssh[@]}" --env FAKE_RANK --env-file own.env
expect_text out "own.env:1: LIBS is taken as it is"
for pid in $(on_hosts fake_rank); do
  tr '\0' '\n' < "/proc/$pid/environ" > environ
  for entry in 'LIBS=/opt/x:$HOME' 'EMPTY=""'; do
    grep -qxF -- "$entry" environ || fail "a rank lacks $entry: $(grep "^${entry%%=*}=" environ)"
  done
  grep -q ^IN_BOTH= environ && fail "a rank has what .deepspeed_env says"
done
kill -INT "$launcher"
expect_end 75
wait_until "an empty cluster" nobody_left
finish
