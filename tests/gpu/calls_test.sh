#!/usr/bin/env bash
# That pack.sh packs, and that first.sh and second.sh open the bundle, end in time and tell of every part, whatever its
# program does. The programs are stubs of the shell: no GPU and no build is needed.
# usage: calls_test.sh [CHECK...]   these alone of the functions check_CHECK below
# PATIENCE (100) is the deadline of runs that are to end before it, SHORT (10) that of those which it ends, and LATE (10)
# the seconds that these may take beyond it: on a machine that is far too busy all of them are too few.
# Exits with 77 and a reason where a tool that packing needs is not there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for tool in xz python3 setsid flock; do
  command -v $tool > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
patience=${PATIENCE:-100} short=${SHORT:-10} late=${LATE:-10}
work=$(mktemp -d)
before=$(git -C "$here" status --porcelain --ignored 2> /dev/null || true)
unset OUT DS_GOLDEN_DIR
export STUB_PLAN=$work/plan STUB_FREE=200000
# Numbers of the stubs, and what they have started, that are running.
left_running() {
  local file
  for file in $(env -u STUB_PLAN grep -lsz "^STUB_PLAN=$work/plan" /proc/[0-9]*/environ); do
    file=${file#/proc/}
    echo "${file%/environ}"
  done
}
end() {
  local pid
  for pid in $(left_running); do kill -KILL "$pid" 2> /dev/null || true; done
  rm -rf "$work"
}
trap end EXIT
fail() {
  echo "FAILED: $*"
  tail -n 30 "$work"/*/summary-* "$work"/*.said 2> /dev/null || true
  exit 1
}

# A stub does what the first line of the plan says whose pattern matches its name and its arguments.
mkdir "$work/bin" "$work/tools"
cat > "$work/stub" <<'STUB'
#!/usr/bin/env bash
words="$(basename "$0") $*" action=pass
echo "called: $words"
while IFS=$'\t' read -r pattern planned; do
  # shellcheck disable=SC2053  # it is a pattern
  if [[ "$words" == $pattern ]]; then action=$planned; break; fi
done < "$STUB_PLAN"
header() { printf '%s\n' "-------------------------------------------------------------------------------" "$@" \
             "-------------------------------------------------------------------------------"; }
case $action in
  pass) echo "All tests passed (3 assertions in 1 test case)" ;;
  hang) echo "step 1 of 9"; sleep 300 ;;
  stubborn)  # a part that no TERM ends, with a child that has left its group
    trap '' TERM
    setsid sleep 300 &
    sleep 300; sleep 300 ;;
  fault) printf '0.002 s: a case before the fault\n'; kill -SEGV $$ ;;
  fails)
    header "rows of a \"view\" \\ begin" "  fp32"
    printf '%s\n' "tests/x_test.cpp:1" "......." "" "tests/x_test.cpp:12: FAILED:" "  CHECK( error < 3e-6 )" \
      "with expansion:" "  0.000004 < 0.000003" ""
    header "a fault of the device"
    printf '%s\n' "tests/x_test.cpp:3" "......." "" "tests/x_test.cpp:30: FAILED:" \
      "due to unexpected exception with message:" "  an illegal memory access was encountered" "" \
      "===============================================================================" \
      "test cases:  9 |  7 passed |  2 failed" "assertions: 90 | 13 passed | 77 failed"
    exit 77 ;;
  skip) echo "skipped: there is no device" >&2; exit 77 ;;
  nothing) printf 'No test cases matched\n===\nNo tests ran\n' ;;
  figures) printf '{"device": "stub", "copy_gb_s": 4.5e+03, "product_tflop_s": 790.25, "of": [1, -2.5, null]}\n' ;;
  odd) printf '{"x": nan}\n{"y": 01}\n{"caf\303\251": "\377"}\n{"z": {"deep": "\\\\ \\""}}\n'; exit 5 ;;
  refused) echo "==ERROR== ERR_NVGPUCTRPERM - no permission"; exit 1 ;;
  *) echo "no action '$action'"; exit 9 ;;
esac
STUB
chmod +x "$work/stub"
programs="kernels_tests model_tests optim_tests core_tests comm_tests checkpoint_tests zero_tests train_tests
          offload_tests device_ceilings device_kernels train_bench rankd"
for program in $programs; do cp "$work/stub" "$work/bin/$program"; done
for tool in ncu compute-sanitizer; do cp "$work/stub" "$work/tools/$tool"; done

# A job leaves files that job.sh reads.
cat > "$work/bin/dslaunch" <<'STUB'
#!/usr/bin/env bash
if [ "$1" = env ]; then exec "$(dirname "$0")/rankd" "$@"; fi
if [ "$1" = generate ]; then echo '{"text": "The end", "ids": [1, 2]}'; exit; fi
if [ "$1" = eval ]; then echo '{"nats": 20.5}'; exit; fi
while [ $# -gt 0 ]; do if [ "$1" = --run-dir ]; then run=$2; fi; shift; done
mkdir -p "$run/final"
for step in 1 2 3 4 5 6; do
  echo "{\"step\": $step, \"loss\": $((9 - step)).5, \"grad_norm\": 1.5, \"lr\": 0.001}"
done > "$run/metrics.jsonl"
echo '{"ranks": [{"device_bytes_peak": 1000}, {"device_bytes_peak": 1000}]}' | tee "$run/plan.json" > "$run/report.json"
echo weights > "$run/final/model.safetensors"
echo "cuda:0: a stub"
echo "collectives through host memory"
STUB
python3=$(python3 -c 'import sys; print(sys.executable)')
cat > "$work/tools/python3" <<STUB
#!/usr/bin/env bash
case "\$*" in
  *find_spec*) echo yes ;;
  */peers/*) exec "$work/tools/peer" "\$@" ;;
  *) exec "$python3" "\$@" ;;
esac
STUB
cp "$work/stub" "$work/tools/peer"
cat > "$work/tools/nvidia-smi" <<'STUB'
#!/usr/bin/env bash
case "$*" in *memory.free*) echo "$STUB_FREE" ;; *) echo "a GPU" ;; esac
STUB
printf '#!/bin/sh\nexit 0\n' | tee "$work/tools/strip" > "$work/tools/ldd"
printf '#!/bin/sh\necho "$@" >> "%s/cmake.said"\n[ "$1" != --build ]\n' "$work" > "$work/tools/cmake"
chmod +x "$work"/bin/* "$work"/tools/*
PATH=$work/tools:$PATH

# plan PATTERN ACTION...
plan() {
  : > "$STUB_PLAN"
  while [ $# -gt 0 ]; do printf '%s\t%s\n' "$1" "$2" >> "$STUB_PLAN"; shift 2; done
}

# call CODE SECONDS FOLDER SCRIPT WORDS...: a script of the packed folder, its exit code and the most seconds it takes.
call() {
  local code=$1 most=$2 folder=$work/$3 script=$4 start=$SECONDS is=0
  shift 4
  bash "$work/gpu/$script" "$@" --out "$folder" --work "${opened:-$work/opened}" > "$folder.said" 2>&1 || is=$?
  [ $is = "$code" ] || fail "$script $* ends with $is: $(tail -3 "$folder.said")"
  [ $((SECONDS - start)) -le "$most" ] || fail "$script $* has taken $((SECONDS - start)) s"
  [ "$code" = 2 ] || tail -1 "$folder"/summary-? | grep -q "ended after" || fail "$folder has no end of a summary"
}

# expect FOLDER NAME STATUS WHY...: results, each with an expression that its reason matches; every line is JSON.
expect() {
  "$python3" - "$work/$1" "${@:2}" <<'PYTHON' || fail "results of $1"
import glob
import json
import re
import sys


def no_number(text):
    raise ValueError(f"{text} is no JSON")


folder, *expected = sys.argv[1:]
results, figures = {}, {}
for path in glob.glob(f"{folder}/results-?.jsonl"):
    for line in open(path, encoding="ascii"):
        line = json.loads(line, parse_constant=no_number)
        if line["status"] == "figure":
            figures.setdefault(line["name"], []).append(line.get("figures", line.get("text")))
        else:
            assert line["name"] not in results, f"two results of {line['name']}"
            results[line["name"]] = line
summary = "".join(open(path, encoding="latin-1").read() for path in glob.glob(f"{folder}/summary-?"))
wrong = []
for name, status, why in zip(*[iter(expected)] * 3):
    found = results.get(name, {})
    said = json.dumps([found.get("why"), found.get("cases"), figures.get(name)])
    if found.get("status") != status or not re.search(why, said):
        wrong.append(f"{name} is {found.get('status')}: {said}, and not {status}: {why}")
    if name not in summary:
        wrong.append(f"{name} is not in the summary")
print("\n".join(wrong), end="")
sys.exit(bool(wrong))
PYTHON
}

names_with() { grep -o "\"name\": \"[^\"]*\", \"status\": \"$2\"" "$work/$1"/results-?.jsonl | cut -d'"' -f4; }

check_packing() {
  local said=$work/pack.said
  "$here/pack.sh" --bin "$work/bin" --out "$work/gpu" > "$said" || fail "pack.sh"
  grep -qE '^kernels_tests +0.0 MiB' "$said" || fail "pack.sh says no size of a program"
  grep -qE '^tree +[0-9.]+ MiB' "$said" || fail "pack.sh says no size of the tree"
  "$python3" -m json.tool "$work/gpu/manifest.json" > /dev/null || fail "the manifest is not JSON"
  [ "$(ls "$work/gpu")" = "$(printf '%s\n' bundle.tar.xz cases.awk first.sh manifest.json parts.sh second.sh)" ] ||
    fail "the folder holds $(ls "$work/gpu")"
  "$here/pack.sh" --help | grep -q -- '--cudnn-frontend /tmp' || fail "no example"
  if "$here/pack.sh" --bin "$work/bin" --out "$work/full" --limit 0 > "$said" 2>&1; then fail "0 MiB are enough"; fi
  grep -q 'are more than' "$said" || fail "pack.sh says $(cat "$said")"
  rm -rf "$work/full"
  # What a build is asked for; the stub of cmake builds nothing.
  mkdir "$work/frontend"
  for bin in "" "$work/bin"; do
    if "$here/pack.sh" --cudnn-frontend "$work/frontend" ${bin:+--bin "$bin"} 2> "$said"; then fail "no header"; fi
    touch "$work/frontend/cudnn_frontend.h"
  done
  grep -q -- '--bin builds nothing' "$said" || fail "pack.sh says $(cat "$said")"
  if "$here/pack.sh" --cudnn-frontend "$work/frontend" 2> "$said"; then fail "nothing was built, and packed"; fi
  grep -qE "^--preset gpu .*ARCHITECTURES=90-real .*CUDNN=ON .*FRONTEND_INCLUDE_DIR=$work/frontend\$" \
    "$work/cmake.said" || fail "cmake was told $(cat "$work/cmake.said")"
}

check_unpacking() {
  local path=$work/without_xz file
  plan '*' pass
  call 0 "$patience" xz first.sh A "$patience" --only env
  expect xz unpack passed '' env passed ''
  mkdir "$path"
  for file in bash sh env timeout tar cat mkdir mktemp dirname basename rm mv cmp grep sed awk cut tr tail head sleep \
      stat flock nproc; do
    ln -s "$(command -v $file)" "$path/$file"
  done
  opened=$work/by_python PATH=$work/tools:$path call 0 "$patience" python first.sh A "$patience" --only env
  expect python unpack passed '' env passed ''
  diff -r "$work/opened/bundle" "$work/by_python/bundle" || fail "python unpacks something else"
  call 0 "$patience" again first.sh A "$patience" --only nvidia-smi
  if names_with again passed | grep -q unpack; then fail "a bundle was opened twice"; fi

  mkdir "$work/cut"
  cp "$work"/gpu/* "$work/cut/"
  truncate -s 100 "$work/cut/bundle.tar.xz"
  if bash "$work/cut/first.sh" A "$patience" --out "$work/broken" --work "$work/broken_work" > "$work/broken.said" 2>&1; then
    fail "a broken bundle was opened"
  fi
  expect broken unpack failed 'exit' "kernels/softmax" "not reached" 'could not be unpacked'
  for words in "" "C" "A 0" "A 20 --device" "A --speed"; do
    # shellcheck disable=SC2086  # words
    call 2 5 usage first.sh $words
  done
}

# Results of every kind, in files of tests that run beside each other.
check_results() {
  plan '*ceilings*' figures '*softmax_test*' fault '*attention_test*' fails '*host_copy*' skip '*meta_test*' nothing \
    '*--no-graphs*' skip '*train_bench*' odd
  call 1 "$patience" results first.sh A "$patience" --only 'ceilings,124m*,kernels/s*,kernels/m*,kernels/attention,core/*,torch*'
  expect results ceilings passed '790.25' kernels/softmax failed "SIGSEGV after the case 'a case before the fault'" \
    kernels/attention failed '2 failed.*rows of a .*begin fp32.*4 < 0.000003.*illegal memory access' \
    core/host_copy skipped 'there is no device' kernels/meta skipped 'no such case' "124m eager" failed 'exit 77' \
    "124m graphs" failed 'exit 5.*nan' kernels/signs passed '' kernels/matmul passed '' \
    "torch 124m compiles" passed ''
  grep -q -- '--ceiling-tflop-s 790.25' "$work/results/log-A" || fail "rates are compared with no ceiling"
  grep -q '^failed: .*kernels/softmax' "$work/results/summary-A" || fail "the summary does not say what has failed"
}

check_jobs() {
  plan '*' pass
  call 0 "$patience" jobs first.sh B "$patience" --only 'job *,vocabulary*,1558m,zero/on*'
  expect jobs "job train" passed 'loss_apart' "job memory" passed 'planned_device_bytes' "job resume" passed '' \
    "job across" passed '' "job generate" passed '' "job zero" passed '' 1558m passed '' "vocabulary strides" passed '' \
    zero/onebit passed ''
}

check_second() {
  plan '*' pass
  STUB_FREE=80000 call 0 "$patience" second second.sh A "$patience"
  expect second "124m of 32" passed '' "124m of 64" passed '' "124m of 64 tuned" passed '' \
    "124m of 64 in any order" passed '' 1558m passed '' \
    llama-1.5b passed '' llama-7b skipped '112 GiB.*78 are free' kernels passed '' "torch 124m" passed '' \
    "torch llama-1.5b" skipped '100 GiB'
  grep -q 'torch_device_train.py.* --by-blocks' "$work/second/log-A" || fail "a peer is not compiled by blocks"
  grep -q -- '--tune ' "$work/second/log-A" || fail "nothing is tuned"
  grep -q -- '--nondeterministic' "$work/second/log-A" || fail "attention is deterministic always"
  plan '*comm_tests*' nothing 'ncu *' refused '*racecheck*' fails
  call 1 "$patience" tools second.sh B "$patience"
  expect tools "ncu norms" skipped 'ERR_NVGPUCTRPERM' "ncu softmax" skipped '' "memcheck softmax" passed '' \
    "memcheck layer_norm" passed '' "memcheck part" passed '' "racecheck attention" failed '2 failed' \
    nccl skipped 'no such case'
  call 0 "$patience" emulated second.sh A "$patience" --device emulated --only '124m of 64 tuned,torch 124m,llama-7b'
  expect emulated "124m of 64 tuned" passed '' "torch 124m" skipped 'emulated' llama-7b passed ''
  grep -q -- '--model tiny .*--tune ' "$work/emulated/log-A" || fail "an emulated device trains what is not tiny"
}

# A limit is a part's own, and those after it go on.
check_limits() {
  cat > "$work/gpu/limits.sh" <<'SCRIPT'
#!/usr/bin/env bash
set -uo pipefail
. "$(dirname "$0")/parts.sh"
declare -A seconds_of=([A]=100)
call_A() {
  ours slow 3 "$bundle/bin/rankd" hang
  ours after 50 "$bundle/bin/rankd" go on
  ours absent 50 "$bundle/bin/none"
  needs=300 ours large 50 "$bundle/bin/rankd" go on
}
stage "$@"
SCRIPT
  plan '*hang' hang
  call 1 "$patience" limits limits.sh A "$patience"
  expect limits slow "timed out" 'after 3 s; last it printed: step 1 of 9' after passed '' absent skipped 'no program' \
    large skipped 'needs 300 GiB.*195 are free'
}

# A part that no TERM ends is killed before the deadline, and the others are named.
check_deadline() {
  plan '*vocabulary_strides*' stubborn
  call 1 $((short + late)) deadline first.sh B "$short"
  expect deadline "vocabulary strides" "timed out" 'after [0-9]+ s .40 without' "job zero" "not reached" 'deadline' \
    zero/zenflow "not reached" '' 1558m "not reached" ''
  grep -q '^not reached: torch 124m, kernels, job train' "$work/deadline/summary-B" || fail "no list of the others"
}

# A part that not even KILL ends, as the timeout(1) of this folder never does.
check_alarm() {
  mkdir "$work/alarm_tools"
  printf '#!/usr/bin/env bash\ncase "$*" in *dslaunch*) trap "" TERM; sleep 300 ;; *) exec %s "$@" ;; esac\n' \
    "$(command -v timeout)" > "$work/alarm_tools/timeout"
  chmod +x "$work/alarm_tools/timeout"
  PATH=$work/alarm_tools:$PATH call 1 $((short + late)) alarm first.sh A "$short"
  expect alarm env "timed out" 'the deadline' kernels/softmax "not reached" 'the deadline'
}

# Whether a stub, or what has started it, runs with such arguments.
runs() {
  local pid
  for pid in $(left_running); do
    if tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -q "$1"; then return 0; fi
  done
  return 1
}

# A signal ends a run early, in the middle of files of tests.
check_signal() {
  local pid folder=$work/signal rounds=0 start code=0
  plan '*_tests *' stubborn
  bash "$work/gpu/first.sh" A "$patience" --out "$folder" --work "$work/opened" > "$folder.said" 2>&1 &
  pid=$!
  until runs 'kernels_tests.*device_memory' && runs 'kernels_tests.*matmul'; do
    rounds=$((rounds + 1))
    [ $rounds -lt $((10 * patience)) ] || fail "no test has begun"
    sleep 0.1
  done
  start=$SECONDS
  kill -TERM $pid
  wait $pid || code=$?
  [ $code = 1 ] || fail "a run that was ended ends with $code"
  [ $((SECONDS - start)) -le $((5 + late)) ] || fail "a run ends $((SECONDS - start)) s after a signal"
  expect signal env passed '' kernels/device_memory stopped 'signal TERM' train/device_engine "not reached" 'signal TERM'
  grep -q '^stopped: .*kernels/matmul' "$folder/summary-A" || fail "the summary does not say what was stopped"
}

# A reader of the output that goes away.
check_pipe() {
  plan '*' pass
  bash "$work/gpu/first.sh" A "$patience" --out "$work/pipe" --work "$work/opened" --only 'env,ceilings,core/*' |
    head -1 > /dev/null
  expect pipe env passed '' ceilings passed '' core/host_copy passed ''
  tail -1 "$work/pipe/summary-A" | grep -q '3 passed' || fail "no end of a summary without a reader"
}

# Each file with cases for devices is a part of a call, and each name in a call is that of a file.
check_lists() {
  local file name suite listed
  listed=$(sed -nE 's/^ *files ([a-z]+) (.*)/\1 \2/p' "$here/first.sh" |
    while read -r suite names; do for name in $names; do echo "$suite/$name"; done; done | sort)
  [ -z "$(uniq -d <<< "$listed")" ] || fail "$(uniq -d <<< "$listed") is twice in first.sh"
  while IFS= read -r file; do
    name=$(basename "$file" _test.cpp) suite=${file#"$here/../"}
    case "$name" in aligned_products|emulated|truncated_sums|warp_matrix) continue ;; esac  # the emulated device alone has them
    grep -qx "${suite%%/*}/$name" <<< "$listed" || fail "first.sh has no ${suite%%/*}/$name, which devices have cases of"
  done < <(grep -rlE '\[(device|cuda)\]' "$here/.." --include='*_test.cpp')
  while IFS=/ read -r suite name; do
    [ -n "$(find "$here/../$suite" -name "${name}_test.cpp")" ] || fail "first.sh names $suite/$name, which is no file"
  done <<< "$listed"
  grep -rqF 'TEST_CASE("attention of whole packs matches the reference around the sizes of blocks"' \
    "$here/../kernels/attention/attention_test.cpp" || fail "second.sh names a case that is not there"
}

if [ $# = 0 ]; then set -- lists unpacking results jobs second pipe limits deadline alarm signal; fi
check_packing
for check; do
  "check_$check"
  echo "$check: passed after $SECONDS s"
done
sleep 0.3
left=$(left_running)
# shellcheck disable=SC2086  # a list of numbers
[ -z "$left" ] || fail "running yet: $(ps -o pid=,args= -p ${left//$'\n'/,})"
[ "$(git -C "$here" status --porcelain --ignored 2> /dev/null || true)" = "$before" ] || fail "files in the checkout"
echo "passed"
