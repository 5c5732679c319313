#!/usr/bin/env bash
# That a bundle can be packed and its run.sh runs from it: on the emulated device, with programs of a build for that.
# usage: run_emulated.sh BIN_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$here/pack.sh" --bin "$bin" --out "$work/packed" \
  --programs "kernels_tests optim_tests comm_tests zero_tests train_tests device_ceilings device_kernels train_bench
              dslaunch rankd"
mkdir "$work/bundle"
tar -C "$work/bundle" -xf "$work/packed/bundle.tar.xz"
python3 -m json.tool "$work/packed/manifest.json" > /dev/null || fail "the manifest is not JSON"
[ -z "$(find "$work/bundle/lib" -name 'libc.so*' -o -name 'libstdc++.so*')" ] || fail "libraries of the system are packed"

"$work/bundle/gpu/run.sh" --device emulated --out "$work/out" > "$work/table" || { cat "$work/out/log"; fail "run.sh"; }
cat "$work/table"
python3 - "$work/out/results.jsonl" <<'PYTHON'
import json
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
status = {(line["part"], line["name"]): line["status"] for line in lines if line["status"] != "figure"}
expected = {("ceilings", "device_ceilings"): "passed", ("correctness", "kernels"): "passed",
            ("correctness", "optim"): "passed", ("correctness", "comm"): "passed",
            ("correctness", "zero"): "passed", ("correctness", "train"): "passed",
            **{("jobs", step): "passed" for step in ("train", "memory", "resume", "across", "generate", "zero")},
            ("kernels", "device_kernels"): "passed",
            ("training", "tiny"): "passed", ("correctness", "model"): "skipped",  # not packed above
            ("sanitizer", "memcheck"): "skipped"}
wrong = {key: status.get(key) for key, value in expected.items() if status.get(key) != value}
assert not wrong, f"other results than expected: {wrong}"
figures = {line["name"] for line in lines if line["status"] == "figure"}
assert figures >= {"device_ceilings", "device_kernels", "memory", "zero"}, f"figures of {figures} alone"
trained = next(line["figures"] for line in lines if line["part"] == "training" and line["status"] == "figure")
assert abs(trained["device_bytes_measured"] / trained["device_bytes_planned"] - 1) <= 0.02, trained
assert all(line["why"] for line in lines if line["status"] == "skipped"), "skipped without a reason"
PYTHON
counted="$(grep -c '"status": "passed"' "$work/out/results.jsonl") passed, 0 failed, 0 timed out"
grep -q "^$counted, " "$work/table" || fail "the count is not that of the results: $(tail -1 "$work/table")"
[ "$(grep -c '^jobs  *[a-z]*  *passed ' "$work/table")" = 6 ] || fail "not one line for each step of the jobs"

# What fails or hangs is told as that, and ends the run with 1.
mkdir "$work/broken"
printf '#!/bin/sh\necho "no \\"device\\""\nexit 3\n' > "$work/broken/device_ceilings"
chmod +x "$work/broken/device_ceilings"
if "$here/run.sh" --device emulated --bin "$work/broken" --out "$work/failed" --parts ceilings,jobs,kernels > /dev/null; then
  fail "a program that fails went through"
fi
python3 - "$work/failed/results.jsonl" <<'PYTHON'
import json
import sys

ceilings, *jobs, kernels = [json.loads(line) for line in open(sys.argv[1])]
assert ceilings["status"] == "failed" and ceilings["why"] == 'exit 3: no "device"', ceilings
assert len(jobs) == 6 and all(job["status"] == "skipped" and job["why"] for job in jobs), jobs
assert kernels["status"] == "skipped" and "there is no" in kernels["why"], kernels
PYTHON
if "$here/run.sh" --device emulated --bin "$work/broken" --out "$work/failed" --parts speed 2> /dev/null; then
  fail "a part that does not exist went through"
fi
echo "passed"
