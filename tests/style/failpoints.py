"""Checks that the list of failpoints in core/status/failpoint.cpp is sorted and names exactly the places in the
source, each once, and that every library with a place has them compiled in: elsewhere a place is nothing.

usage: failpoints.py SOURCE_DIR
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
text = (root / "core/status/failpoint.cpp").read_text()
listed = re.findall(r'"([^"]+)"', text[text.index("kNames{"):text.index("};", text.index("kNames{"))])
placed, not_compiled = [], []
for folder in ("core", "comm", "zero", "checkpoint", "train", "generate", "rankd", "data", "optim", "model", "offload"):
    here = [name for path in sorted((root / folder).rglob("*.cpp"))
            for name in re.findall(r'DS_FAILPOINT\("([^"]+)"\)', path.read_text())]
    lists = (root / folder / "CMakeLists.txt").read_text()
    not_compiled += [] if re.search(rf"^ds_failpoints\([^)]*\bds_{folder}\b", lists, re.M) else here
    placed += here
bad = [f"not sorted or listed twice: {b}" for a, b in zip(listed, listed[1:]) if a >= b]
bad += [f"listed, but nowhere in the source: {name}" for name in sorted(set(listed) - set(placed))]
bad += [f"in the source, but not listed: {name}" for name in sorted(set(placed) - set(listed))]
bad += [f"in the source more than once: {name}" for name in sorted(set(placed)) if placed.count(name) > 1]
bad += [f"in a library without ds_failpoints(): {name}" for name in not_compiled]
print("\n".join(bad) if bad else f"failpoints: {len(listed)}, no violation")
sys.exit(bool(bad))
