#!/usr/bin/env bash
# That a bundle of real programs can be packed, and that first.sh and second.sh run from it: on the emulated device, with
# programs of a build for that. Everything is tiny, and no figure is to be used.
# usage: run_emulated.sh BIN_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$here/pack.sh" --bin "$bin" --out "$work/packed" \
  --programs "kernels_tests optim_tests comm_tests zero_tests device_ceilings device_kernels train_bench dslaunch rankd"
python3 -m json.tool "$work/packed/manifest.json" > /dev/null || fail "the manifest is not JSON"

# call FOLDER SCRIPT CALL PARTS
call() {
  bash "$work/packed/$2" "$3" 250 --device emulated --out "$work/$1" --work "$work/opened" --only "$4" ||
    { cat "$work/$1"/log-*; fail "$2 $3"; }
}
call first-a first.sh A \
  'nvidia-smi,env,ceilings,124m eager,torch*,kernels/softmax,optim/rules,comm/solo_comm,model/stage'
[ -z "$(find "$work/opened/bundle/lib" -name 'libc.so*' -o -name 'libstdc++.so*')" ] ||
  fail "libraries of the system are packed"
call first-b first.sh B 'kernels,job *,zero/store_suite'
call second-a second.sh A '124m of 64 tuned,llama-7b'
call second-b second.sh B 'memcheck softmax'

python3 - "$work" <<'PYTHON'
import json
import pathlib
import sys

lines = [json.loads(line) for path in pathlib.Path(sys.argv[1]).glob("*/results-?.jsonl") for line in path.open()]
status = {line["name"]: line["status"] for line in lines if line["status"] != "figure"}
passed = ["unpack", "env", "ceilings", "124m eager", "kernels/softmax", "optim/rules", "comm/solo_comm", "kernels",
          *(f"job {step}" for step in ("train", "memory", "resume", "across", "generate", "zero")),
          "zero/store_suite", "124m of 64 tuned", "llama-7b"]
skipped = ["nvidia-smi", "torch 124m compiles", "model/stage", "memcheck softmax"]  # model_tests were not packed
expected = {**dict.fromkeys(passed, "passed"), **dict.fromkeys(skipped, "skipped")}
assert status == expected, f"other results than expected: {sorted(status.items() ^ expected.items())}"
figures = {line["name"] for line in lines if line["status"] == "figure"}
assert figures >= {"ceilings", "kernels", "124m eager", "job memory", "job zero"}, f"figures of {figures} alone"
assert not [line for line in lines if line["status"] == "figure" and "figures" not in line], "figures that are no JSON"
for name in ("124m eager", "124m of 64 tuned"):  # moments in bf16 have room to be saved, too
    trained = next(line["figures"] for line in lines if line["name"] == name and line["status"] == "figure")
    assert abs(trained["device_bytes_measured"] / trained["device_bytes_planned"] - 1) <= 0.02, trained
assert all(line["why"] for line in lines if line["status"] == "skipped"), "skipped without a reason"
PYTHON
echo "passed"
