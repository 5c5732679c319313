#!/usr/bin/env bash
# Two hosts without a shared folder: each keeps the checkpoints of its own ranks on its own disk. The same
# weights, to the bit, as four ranks here, also when a rank is killed on the way; a lost disk is an error and
# never a run from the beginning; what one host has says what is missing, and with the rest it is whole.
own_disk=disk
source "$(dirname "$0")/hosts.sh"
unset DSLAUNCH_RANKD
seq 4000 > corpus.txt
same=(train.steps=300 train.save_every=50 zero_optimization.stage=2)
apart=("${same[@]}" checkpoint.use_node_local_storage=true)

timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir local "${same[@]}" > out 2> err ||
  fail "local training: exit code $?"
same_weights() {
  cmp local/final/model.safetensors disk-of-0/run/final/model.safetensors || fail "$1: other weights"
}
# again <code> <words...>: goes on in the same run directories.
again() {
  local want=$1 got
  shift
  timeout 100 ip netns exec "$here" "$bin/dslaunch" train.json --run-dir "$run" "${by_ssh[@]}" --num-threads 1 \
    "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "dslaunch $*: exit code $got, expected $want"
}

run_on_hosts 69 "${by_ssh[@]}" --num-threads 1 "${same[@]}"
expect_text err "shared folder"

run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${apart[@]}" train.keep_checkpoints=2
same_weights undisturbed
[ ! -e "$run/checkpoints" ] || fail "the launcher has checkpoints, and is not among the hosts"
for i in 0 1; do
  has=$(cd "disk-of-$i/run/checkpoints" && echo *)
  [ "$has" = "epoch global_step250 global_step300 latest" ] || fail "host $i has: $has"
  has=$(cd "disk-of-$i/run/checkpoints/global_step300" && echo *.pieces)
  want="rank-0000$((2 * i)).pieces rank-0000$((2 * i + 1)).pieces"
  [ "$has" = "$want" ] || fail "host $i has $has, expected $want"
done

start_on_hosts "${by_ssh[@]}" --num-threads 1 "${apart[@]}"
wait_until "a checkpoint" test -d disk-of-1/run/checkpoints/global_step50
kill -KILL "$(processes_of "${nodes[1]}" rankd | tail -1)"
expect_end 0
expect_text out "restart 1 of"
expect_text out "from global_step"
same_weights "after a restart"

dslaunch generate disk-of-0/run/checkpoints --prompt 1 --max-tokens 4 > out 2> err
code=$?
[ "$code" -eq 66 ] || fail "generate with the files of one host: exit code $code"
expect_text err "the files of ranks 2 to 3 of 4 (saved on "
expect_text err "checkpoint.use_node_local_storage"
cp -r disk-of-0/run/checkpoints disk-of-1/run/checkpoints "$run"
dslaunch generate "$run" --prompt 1 --max-tokens 4 > out 2> err || fail "generate with all files: exit code $?"
rm -r "$run/checkpoints"

again 0 "${apart[@]}" train.steps=310  # from what both have
mv disk-of-1/run disk-of-1/kept
again 77 "${apart[@]}" train.steps=320
expect_text err "there is no checkpoint that can be loaded"
expect_text err "global_step310"
expect_text err "the files of ranks 2 to 3 of 4 (saved on "
mv disk-of-1/run disk-of-1/other
mv disk-of-1/kept disk-of-1/run
again 0 "${apart[@]}" train.steps=320
[ "$(tail -1 "$run/metrics.jsonl" | grep -c '"step": 320')" -eq 1 ] || fail "did not go on to step 320"
# Another machine launches, which knows of no epoch; the hosts do.
mv "$run" "$run.elsewhere"
again 0 "${apart[@]}" train.steps=330
case $(head -1 "$run/metrics.jsonl") in '{"step": 321,'*) ;; *) fail "a new launcher did not go on from step 320" ;; esac

# Killed where some hosts have named a tag and others not, and where leftovers of that are named later: the
# first tag is never half there, so the run never ends over it.
short=(train.steps=60 train.save_every=20 zero_optimization.stage=2)
timeout 100 dslaunch train.json --num-ranks 4 --num-threads 1 --run-dir short "${short[@]}" > out 2> err ||
  fail "local training: exit code $?"
for places in "local.all_prepared@rank0@epoch1=kill" "local.published@rank2@epoch1=kill" \
  "commit.renamed@rank0@epoch1=kill; local.put_in_place@rank2@epoch2=kill" \
  "local.all_published@rank0@epoch1=1*off->kill; sets.files_brought@rank1@epoch2=kill"; do
  run_on_hosts 0 "${by_ssh[@]}" --num-threads 1 "${short[@]}" checkpoint.use_node_local_storage=true \
    --env "DSL_FAILPOINTS=$places"
  expect_text out "restart 1 of"
  cmp short/final/model.safetensors disk-of-0/run/final/model.safetensors || fail "$places: other weights"
  left=$(ls disk-of-?/run/checkpoints | grep -c '\.[a-z]*\.[0-9]')
  [ "$left" -eq 0 ] || fail "$places: left behind: $(ls disk-of-?/run/checkpoints)"
done
wait_until "an empty cluster" nobody_left
finish
