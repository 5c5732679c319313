# Functions that first.sh and second.sh share; a shell sources this file. A run is made of parts: each is a process with
# a limit of its own, cut by what is left of the deadline of the run, and has one result. A result is a line of the
# summary and a line of JSON as soon as the part ends, so what is killed later takes nothing away. When the deadline
# comes, or a signal, the parts that are running are killed, all others are named as not reached, and the summary is
# closed. A script defines call_A and call_B, the lists of parts, and calls `stage "$@"`.
#
# shellcheck shell=bash

grace=2  # seconds between TERM and KILL
least=3  # seconds; a part that has fewer of them is not tried
here=$(cd "$(dirname "$0")" && pwd)
stopped=''  # the reason for which nothing more is begun
status=''   # of the part that was tried last

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }
refuse() { echo "$(basename "$0"): $*; --help says more" >&2; exit 2; }
is_emulated() { [ "$device" = emulated ]; }

read_options() {
  call='' budget='' device=cuda:0 only='*' work=${TMPDIR:-/tmp}/ds-gpu out=${OUT:-gpu-results}
  while [ $# -gt 0 ]; do
    case "$1" in
      --help) usage; exit 0 ;;
      --device|--only|--out|--work)
        [ $# -ge 2 ] || refuse "$1 needs a value"
        declare -g "${1#--}=$2"; shift 2 ;;
      A|B) call=$1; shift ;;
      ''|0*|*[!0-9]*) refuse "'$1' is neither a call (A, B), nor seconds, nor an option" ;;
      *) budget=$1; shift ;;
    esac
  done
  [ -n "$call" ] || refuse "which call is it, A or B?"
  budget=${budget:-${seconds_of[$call]}}
  deadline=$((SECONDS + budget))
}

# Makes the folders and files, and says who ends the run.
prepare() {
  ulimit -c 0
  mkdir -p "$out" "$work" || exit 1
  out=$(cd "$out" && pwd) work=$(cd "$work" && pwd)
  each=$(mktemp -d "$work/each.XXXXXX") || exit 1
  results=$out/results-$call.jsonl summary=$out/summary-$call log=$out/log-$call
  : > "$results"; : > "$summary"; : > "$log"; : > "$each/statuses"
  token=$$.$RANDOM$RANDOM
  trap 'stop "signal TERM"' TERM
  trap 'stop "signal INT"' INT
  trap 'stop "signal HUP"' HUP
  trap 'stop "the deadline"' ALRM
  trap close EXIT
  watch $((budget - grace)) > /dev/null 2>&1 < /dev/null &
  watcher=$!
  disown
  say "$(basename "$0") $call, $budget s, device $device$([ "$only" = '*' ] || echo ", only $only")"
}

# The alarm is for a part that cannot even be killed: timeout(1) would wait for it.
watch() {
  local nap='' parent
  trap 'kill "$nap"; exit' TERM
  sleep "$1" &
  nap=$!
  wait "$nap"
  read -r _ _ _ parent _ < "/proc/$BASHPID/stat"
  if [ "$parent" = "$$" ]; then kill -ALRM "$$"; fi
}

say() {
  printf '%s\n' "$1" >> "$summary"
  printf '%s\n' "$1" 2> /dev/null
}

# Numbers of the processes that parts have started: of all parts, or of the one with this key.
started() { grep -lsz "^DS_GPU_PART=$token\.${1-}" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3; }

# Kills them, also those that have left the part's group of processes.
end_started() {
  local pids round
  pids=$(started "${1-}")
  [ -n "$pids" ] || return 0
  # shellcheck disable=SC2086  # a list of numbers
  kill -TERM $pids 2> /dev/null
  for round in 1 2 3 4 5 6 7 8; do
    sleep 0.1
    pids=$(started "${1-}")
    [ -n "$pids" ] || return 0
  done
  # shellcheck disable=SC2086
  kill -KILL $pids 2> /dev/null
}

stop() {
  [ -z "$stopped" ] || return 0
  stopped=$1 deadline=0
  echo "$1" > "$each/stopped"
  end_started
  sleep 0.1
  end_started  # what was being started
}

# quoted TEXT: a string of JSON in $REPLY. What is not ASCII becomes '?'.
quoted() {
  local LC_ALL=C text=$1
  text=${text//[$'\001'-$'\037']/ }
  text=${text//[$'\177'-$'\377']/?}
  text=${text//\\/\\\\}
  REPLY=\"${text//\"/\\\"}\"
}

# tell NAME STATUS SECONDS WHY [FILE]: the result of a part. The lines of FILE are CASE<tab>ERROR, of its cases that
# failed.
tell() {
  local name=$1 is=$2 seconds=$3 why=$4 file=${5-} json lines cases='' title error
  quoted "$name"; json="{\"call\": \"$call\", \"name\": $REPLY, \"status\": \"$is\", \"seconds\": $seconds"
  quoted "$why"; json+=", \"why\": $REPLY"
  printf -v lines '%-11s %-34s %4s s  %s' "$is" "$name" "$seconds" "$why"
  if [ -n "$file" ] && [ -s "$file" ]; then
    while IFS=$'\t' read -r title error; do
      lines+=$'\n'"              > $title: $error"
      quoted "$title"; cases+=", {\"case\": $REPLY"
      quoted "$error"; cases+=", \"error\": $REPLY}"
    done < "$file"
    json+=", \"cases\": [${cases#, }]"
  fi
  {
    flock 9
    printf '%s}\n' "$json" >> "$results"
    printf '%s\t%s\n' "$is" "$name" >> "$each/statuses"
    [ "$is" = "not reached" ] || say "$lines"  # the last lines name those
  } 9>> "$each/lock"
}

skip() { if is_wanted "$1"; then tell "$1" skipped 0 "$2"; fi; }

# --only is a list of patterns of names.
is_wanted() {
  local pattern patterns
  IFS=, read -r -a patterns <<< "$only"
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053  # it is a pattern
    if [[ "$1" == $pattern ]]; then return 0; fi
  done
  return 1
}

# Figures are the lines of a part's output that are objects of JSON, with values that are plain or lists of plain ones.
plain='(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|"[^"\\]*"|true|false|null)'
value="($plain|\\[($plain(, $plain)*)?\\])"
object="^\\{(\"[^\"\\\\]*\": $value(, \"[^\"\\\\]*\": $value)*)?\\}\$"
tell_figures() {
  local name=$1 output=$2 line key lines='' json=''
  while IFS= read -r line; do
    if [[ "$line" =~ $object ]]; then key=figures; else quoted "$line"; line=$REPLY key=text; fi
    quoted "$name"
    json+="{\"call\": \"$call\", \"name\": $REPLY, \"status\": \"figure\", \"$key\": $line}"$'\n'
    lines+="              ${line:0:300}"$'\n'
  done < <(LC_ALL=C grep -a '^{[ -~]*}$' "$output" | head -100)
  [ -n "$json" ] || return 0
  {
    flock 9
    printf '%s' "$json" >> "$results"
    say "${lines%$'\n'}"
  } 9>> "$each/lock"
}

last_line() { grep -av '^[[:space:]]*$' "$1" | tail -1 | tr '\t\r' '  ' | cut -c1-300; }

# judge NAME PROGRAM CODE SECONDS LIMIT OWN OUTPUT: sets status and why. Test programs end with the number of assertions
# that failed, which may be 77, or a number that a shell has for a signal: what they print decides.
judge() {
  local name=$1 program=$2 code=$3 seconds=$4 limit=$5 own=$6 output=$7 last counted
  last=$(last_line "$output")
  counted=$(grep -a '^test cases: ' "$output" | tail -1 | tr -s ' ')
  status=failed why="exit $code: $last"
  if [ "$code" = 0 ]; then
    status=passed why=''
    if grep -aq '^No tests ran' "$output"; then
      status=skipped why="$(basename "$program") of this build has no such case"
    fi
  elif [ "$seconds" -ge "$limit" ] && { [ "$code" = 124 ] || [ "$code" -gt 128 ]; }; then
    status="timed out" why="after $limit s"
    if [ "$limit" -lt "$own" ]; then why+=" ($own without the deadline)"; fi
    if [ -n "$last" ]; then why+="; last it printed: $last"; fi
  elif [ -n "$counted" ]; then
    why="exit $code: $counted"
  elif [ -e "$each/stopped" ]; then
    status=stopped why="by $(cat "$each/stopped")${last:+; last it printed: $last}"
  elif [ "$code" = 77 ] && [[ "$program" == *_tests || "$program" == */job.sh || "$program" == python3 ]]; then
    status=skipped why=$last  # to other programs it is the code of an error
  elif grep -aqE "$refusals" "$output"; then
    status=skipped why=$(grep -aE "$refusals" "$output" | head -1 | cut -c1-300)
  elif [ "$code" -gt 128 ] && kill -l $((code - 128)) > /dev/null 2>&1; then
    why="killed by SIG$(kill -l $((code - 128)))"
    last=$(awk -v want=last -f "$here/cases.awk" "$output")
    if [ -n "$last" ]; then why+=" after the case '$last'"; fi
  fi
}
# These are words of tools that a machine does not let work.
refusals='ERR_NVGPUCTRPERM|LibraryNotLoaded|Device not supported'

# The GPU's free memory in MiB, or nothing where no program knows it.
free_mib() {
  timeout -k 1 10 nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i "${device#cuda:}" 2> /dev/null |
    grep -xE -m1 '[0-9]+'
}

# may_begin NAME PROGRAM: tells of a part for which there is no time, no program or (`needs` GiB) no memory.
may_begin() {
  local free
  if [ -n "$stopped" ] || [ $((deadline - SECONDS - 2 * grace)) -lt $least ]; then
    tell "$1" "not reached" 0 "${stopped:-the deadline}"
    return 1
  fi
  if ! command -v "$2" > /dev/null; then
    tell "$1" skipped 0 "there is no program $2"
    return 1
  fi
  if [ -n "${needs:-}" ] && ! is_emulated; then
    free=$(free_mib)
    if [ -n "$free" ] && [ "$free" -lt $((needs * 1024)) ]; then
      tell "$1" skipped 0 "it needs $needs GiB of the GPU's memory, of which $((free / 1024)) are free"
      return 1
    fi
  fi
}

# try NAME LIMIT COMMAND...: one part. `libraries` is its LD_LIBRARY_PATH where it is not empty, `needs` the GiB of the
# GPU's memory without which it is skipped.
try() {
  local name=$1 own=$2 limit left start=$SECONDS code why key output environment
  shift 2
  status=''
  trap : PIPE  # a reader of the output that goes away ends nothing, nor in a shell beside this one
  is_wanted "$name" || return 0
  may_begin "$name" "$1" || { status="not begun"; return 1; }
  left=$((deadline - SECONDS - 2 * grace)) start=$SECONDS
  limit=$((own < left ? own : left))
  if [ "$limit" -lt 1 ]; then limit=1; fi  # as the run was stopped just now
  key=${name//[^A-Za-z0-9_]/-}-$BASHPID
  output=$each/$key
  echo "$name" > "$output.running"
  environment=()
  if [ -n "${libraries:-}" ]; then environment=("LD_LIBRARY_PATH=$libraries"); fi
  DS_GPU_PART=$token.$key. timeout -k $grace "$limit" env "${environment[@]}" "$@" > "$output" 2>&1 < /dev/null &
  if [ -e "$each/stopped" ]; then end_started "$key\."; fi
  await $!
  end_started "$key\."
  judge "$name" "$1" "$code" $((SECONDS - start)) "$limit" "$own" "$output"
  {
    flock 9
    printf '=== %s: %s\n' "$name" "$*"
    head -c 150000 "$output"
    if [ "$(stat -c %s "$output")" -gt 150000 ]; then
      printf '\n... (cut)\n'
      tail -c 40000 "$output"
    fi
  } >> "$log" 9>> "$each/lock"
  awk -f "$here/cases.awk" "$output" > "$output.cases"
  tell "$name" "$status" $((SECONDS - start)) "$why" "$output.cases"
  tell_figures "$name" "$output"
  rm -f "$output.running"
  [ "$status" = passed ]
}

# Waits for a process and sets code. A signal ends a wait early: what was to end is killed by then, and is given a
# second in which it can be seen to have ended.
await() {
  local round
  wait "$1" 2> /dev/null
  code=$?
  [ -n "$stopped" ] || return 0
  for round in 1 2 3 4 5 6 7 8 9 10; do
    if ! kill -0 "$1" 2> /dev/null; then break; fi
    sleep 0.1
  done
  kill -KILL "$1" 2> /dev/null && return 0
  wait "$1" 2> /dev/null
  code=$?
}

# Waits until the parts that are running beside this one have ended. After a stop they are dead, and need a moment to
# say so.
settle() {
  local round=0
  while [ -n "$(jobs -rp)" ] && [ $round -lt 20 ]; do
    sleep 0.1
    if [ -n "$stopped" ]; then round=$((round + 1)); fi
  done
}

# Waits until fewer than `at_once` of the files' processes are running.
at_once=$(($(nproc) / 2))
if [ "$at_once" -lt 4 ]; then at_once=4; fi
of_files=()
wait_for_room() {
  local pid running
  while [ -z "$stopped" ]; do
    running=()
    for pid in "${of_files[@]}"; do
      if kill -0 "$pid" 2> /dev/null; then running+=("$pid"); fi
    done
    of_files=("${running[@]}")
    if [ ${#of_files[@]} -lt $at_once ]; then return; fi
    sleep 0.1
  done
}

# Opens the bundle that lies beside the script, unless that was done before; in an opened one this is its folder.
unpack() {
  local reader
  bundle=$work/bundle
  if [ ! -f "$here/bundle.tar.xz" ]; then
    bundle=$(dirname "$here")
    [ -d "$bundle/bin" ] || { stop "there is no bundle (tests/gpu/pack.sh makes one)"; return; }
    return 0
  fi
  if cmp -s "$here/manifest.json" "$bundle/manifest.json"; then return 0; fi
  rm -rf "$bundle" "$bundle.new"
  mkdir "$bundle.new"
  reader=(tar -xJf "$here/bundle.tar.xz" -C "$bundle.new")
  if ! command -v xz > /dev/null; then reader=(python3 -m tarfile -e "$here/bundle.tar.xz" "$bundle.new"); fi
  local only='*'
  try unpack 120 "${reader[@]}" || { stop "the bundle could not be unpacked"; return; }
  mv "$bundle.new" "$bundle"
}

# Folders of the GPU's libraries: an installation may have put them anywhere.
find_libraries() {
  local folder
  gpu_libraries=$bundle/lib
  while IFS= read -r folder; do
    if [ -d "$folder" ]; then gpu_libraries+=:$folder; fi
  done < <(
    printf '%s\n' /usr/local/cuda*/lib64
    timeout -k 1 20 python3 - 2> /dev/null <<'PYTHON'
import importlib.util
import pathlib

found = importlib.util.find_spec("nvidia")
for folder in found.submodule_search_locations if found else ():
    print(*sorted(map(str, pathlib.Path(folder).glob("*/lib"))), sep="\n")
PYTHON
    printf '%s\n' /usr/local/nvidia/lib64)
  gpu_libraries+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  echo "libraries: $gpu_libraries" >> "$log"
}

# ours NAME LIMIT COMMAND...: a program of the bundle.
ours() {
  local libraries=$gpu_libraries
  try "$@"
}

# files SUITE FILE...: the cases of these files that a device has, each file in a process, so that a fault ends one
# alone, and `at_once` files at a time.
files() {
  local suite=$1 file part
  shift
  for file in "$@"; do
    wait_for_room
    part=("$suite/$file" 60 "$bundle/bin/${suite}_tests" -# -d yes --device "$device"
          "[#${file}_test][device],[#${file}_test][cuda]")
    if [ -n "$stopped" ]; then
      ours "${part[@]}"  # names it, in this order
    else
      ours "${part[@]}" &
      of_files+=($!)
    fi
  done
}

# bench NAME LIMIT FLAG...: train_bench in bf16. On the emulated device it is tiny, and takes alone of the flags what it
# can have an effect of.
bench() {
  local name=$1 limit=$2 flags
  shift 2
  if is_emulated; then
    flags=(--model tiny --batch 1 --length 8 --steps 1)
    while [ $# -gt 0 ]; do
      case "$1" in
        --no-graphs | --nondeterministic) flags+=("$1") ;;
        --tune | --moments) flags+=("$1" "$2") ;;
      esac
      shift
    done
  else
    flags=(--threads "$threads" --length 1024 "$@")
    if [ -s "$work/ceiling" ]; then flags+=(--ceiling-tflop-s "$(cat "$work/ceiling")"); fi
  fi
  ours "$name" "$limit" "$bundle/bin/train_bench" --device "$device" --dtype bf16 "${flags[@]}"
}

# What the device can do at most is what the rates of training are compared with.
ceilings() {
  local flags=() found
  if is_emulated; then flags=(--tiny); fi
  ours ceilings 45 "$bundle/bin/device_ceilings" --device "$device" "${flags[@]}"
  found=$(grep -o '"product_tflop_s": [0-9.]*' "$results" | tail -1 | cut -d' ' -f2)
  if [ -n "$found" ] && ! is_emulated; then echo "$found" > "$work/ceiling"; fi
}

kernels_over_ceilings() {
  local flags=()
  if is_emulated; then flags=(--tiny); fi
  ours kernels 90 "$bundle/bin/device_kernels" --device "$device" "${flags[@]}"
}

# torch NAME LIMIT SCRIPT FLAG...: a peer in PyTorch, with the libraries that it came with, and not the bundle's.
torch() {
  local name=$1 limit=$2 script=$3
  shift 3
  if is_emulated; then skip "$name" "PyTorch has no emulated device"; return; fi
  if [ -z "${has_torch:-}" ]; then
    has_torch=$(timeout -k 1 20 python3 -c \
      'import importlib.util as find; print("yes" if find.find_spec("torch") else "no")' 2> /dev/null || echo no)
  fi
  if [ "$has_torch" = no ]; then skip "$name" "python3 has no torch"; return; fi
  TORCHINDUCTOR_CACHE_DIR=$work/inductor PYTHONUNBUFFERED=1 try "$name" "$limit" \
    python3 "$bundle/peers/$script" --device "$device" "$@"
}

# torch_training NAME LIMIT FLAG...: what bench measures, by PyTorch.
torch_training() {
  local name=$1 limit=$2 flags
  shift 2
  flags=(--length 1024 --dtype bf16 "$@")
  if [ -s "$work/ceiling" ]; then flags+=(--ceiling-tflop-s "$(cat "$work/ceiling")"); fi
  torch "$name" "$limit" torch_device_train.py "${flags[@]}"
}

# job STEP...: steps of job.sh, which go on from what `train` left.
job() {
  local step size=()
  if is_emulated; then size=(tiny); fi
  for step in "$@"; do
    if [ "$step" = train ] && is_wanted "job train"; then rm -rf "$work/jobs"; fi
    ours "job $step" 60 "$bundle/gpu/job.sh" "$step" "$bundle/bin" "$work/jobs" "$bundle/corpus.txt" "${size[@]}"
  done
}

# tool_of NAME PROGRAM LIMIT FLAG...: a tool of CUDA around a program of the bundle, wherever the tool lies.
tool_of() {
  local name=$1 program=$2 limit=$3 found
  shift 3
  if is_emulated; then skip "$name" "the emulated device has sanitizers of its own, and no counters"; return; fi
  found=$(command -v "$program" || compgen -G "/usr/local/cuda*/bin/$program" ||
          compgen -G "/opt/nvidia/nsight-compute/*/$program")
  if [ -z "$found" ]; then skip "$name" "there is no $program"; return; fi
  ours "$name" "$limit" "$(head -1 <<< "$found")" "$@"
}

# names STATUS: the parts that have it.
names() { awk -F'\t' -v is="$1" '$1 == is { printf("%s%s", comma, $2); comma = ", " }' "$each/statuses"; }

# The end of every run, however it came: kills what runs, names it, counts the results and lists what is not passed.
close() {
  local file is listed counts code=0
  trap '' TERM INT HUP ALRM
  trap - EXIT
  kill "$watcher" 2> /dev/null
  # shellcheck disable=SC2046  # a list of numbers
  kill $(jobs -p) 2> /dev/null
  end_started
  for file in "$each"/*.running; do
    if [ -e "$file" ]; then tell "$(cat "$file")" stopped 0 "by ${stopped:-the end of the script}"; fi
  done
  trap : PIPE
  say ""
  for is in failed "timed out" stopped "not reached" skipped; do
    listed=$(names "$is")
    if [ -n "$listed" ]; then say "$is: $listed"; fi
  done
  counts=$(awk -F'\t' '{ ++of[$1] }
    END { printf("%d passed, %d failed, %d timed out, %d stopped, %d skipped, %d not reached", of["passed"],
                 of["failed"], of["timed out"], of["stopped"], of["skipped"], of["not reached"]) }' "$each/statuses")
  say "$call ended after $SECONDS s of $budget${stopped:+ by $stopped}: $counts"
  if grep -qE '^(failed|timed out|stopped)' "$each/statuses"; then code=1; fi
  if [ -n "$stopped" ] && [ "$stopped" != "the deadline" ]; then code=1; fi
  rm -rf "$each"
  exit $code
}

stage() {
  read_options "$@"
  prepare
  unpack
  find_libraries
  if [ -d "$bundle/golden" ]; then export DS_GOLDEN_DIR=$bundle/golden; fi
  if [ -d "$here/../tests/golden" ]; then DS_SOURCE_DIR=$(cd "$here/.." && pwd) && export DS_SOURCE_DIR; fi
  threads=$(nproc)
  cd "$work" || exit 1
  "call_$call"
  settle
}
