#!/usr/bin/env bash
# Runs of `dslaunch tokenize --force` that write the same files at the same time: each ends with 0, or is refused by name
# with 2, and what is there at the end is one whole set of one of them.
source "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 300000 > one.txt
seq 700000 -1 400000 > two.txt
for format in megatron llmc; do
  for text in one two; do
    dslaunch tokenize --tokenizer byte --format $format --file $text.txt --output $text.$format > /dev/null || fail "$text: $?"
  done
  is_whole() { # of that text
    for file in "$1.$format"*; do
      cmp -s "$file" "both.$format${file#"$1.$format"}" || return 1
    done
  }
  refused=0
  for round in $(seq 12); do
    pids=()
    for text in one two one two; do
      dslaunch tokenize --tokenizer byte --format $format --force --file $text.txt --output both.$format > out.${#pids[@]} 2> err.${#pids[@]} &
      pids+=($!)
      sleep 0.0$((RANDOM % 10))
    done
    done=0
    for i in 0 1 2 3; do
      wait "${pids[$i]}"
      code=$?
      case $code in
        0) done=$((done + 1)) ;;
        2) grep -q "both.$format: another run is writing it" err.$i || fail "round $round: $(cat err.$i)"
            refused=$((refused + 1)) ;;
        *) fail "round $round, run $i: exit code $code: $(cat err.$i)" ;;
      esac
    done
    [ $done -ge 1 ] || fail "round $round: all were refused"
    is_whole one || is_whole two || fail "round $round: what is there is neither of the two"
    ls both.$format* | grep -qE 'unfinished|lock' && fail "round $round: left over: $(ls both.$format*)"
  done
  [ $refused -ge 1 ] || fail "no run met another one"
done
# A run that was killed is in nobody's way.
dslaunch tokenize --tokenizer byte --force --file one.txt --file two.txt --output both.megatron > /dev/null 2>&1 &
sleep 0.1
kill -9 $! 2> /dev/null
dslaunch tokenize --tokenizer byte --force --file two.txt --output both.megatron > /dev/null 2> err || fail "after a killed run: $(cat err)"
format=megatron
is_whole two || fail "after a killed run: another set"
finish
