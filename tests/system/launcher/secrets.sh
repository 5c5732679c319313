# Nothing secret in argv or environ, nothing that listens, and a full disk said clearly.
. "$(dirname "$0")/../launcher.sh"

FAKE_RANK="steps=5000" start
for rank in "${ranks[@]}"; do
  arguments=$(tr '\0' ' ' < "/proc/$rank/cmdline")
  [ "$arguments" = "$DSLAUNCH_RANKD --from-stdin " ] || fail "arguments: $arguments"
  new=$(comm -13 <({ env; echo "FAKE_RANK=steps=5000"; } | sort) \
                 <(tr '\0' '\n' < "/proc/$rank/environ" | sort) | grep -vE '^(OMP_NUM_THREADS|_|SHLVL)=')
  [ -z "$new" ] || fail "environment of a rank has more than ours: $new"
  group=$(ps -o pgid= -p "$rank" | tr -d ' ')
  [ "$group" = "$rank" ] || fail "rank $rank is in process group $group"
done
for process in "$launcher" "${ranks[@]}"; do
  inodes=$(ls -l "/proc/$process/fd" | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p')
  for inode in $inodes; do
    # Field 6 of /proc/net/unix is 01 for unconnected (listening) sockets; TCP state 0A is LISTEN. The
    # launcher has the one by which its own user asks for its status.
    listening=$(awk -v i="$inode" '$7 == i && $6 == "01" { print $8 }' /proc/net/unix)
    if [ -n "$listening" ] && ! { [ "$process" = "$launcher" ] && [[ $listening =~ ^@dslaunch-[0-9a-f]{40}$ ]]; }; then
      fail "process $process listens on the unix socket $listening"
    fi
    awk -v i="$inode" '$10 == i && $4 == "0A" { exit 1 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null ||
      fail "process $process listens on a TCP port"
  done
done
kill -INT "$launcher"
expect_end 75

expect 74 train.json --run-dir /proc/self/run
if unshare -rm true 2>/dev/null; then
  mkdir small
  cat > full.sh <<'SCRIPT'
mount -t tmpfs -o size=64k none small && dslaunch train.json --run-dir small/run
SCRIPT
  unshare -rm bash full.sh > out 2> err
  [ $? -eq 74 ] || fail "a disk that is full from the start: no exit code 74"
  expect_text err "No space left on device"
  [ "$(grep -c '^error' err)" -eq 1 ] || fail "more than one error"
else
  echo "skipped: no user namespaces, so no small disk to fill"
fi

finish
