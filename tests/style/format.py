"""Checks that every C++ source is as clang-format leaves it, and that no line of one is longer than 100
columns, which clang-format cannot help in literal text.

usage: format.py SOURCE_DIR

Skipped (77) where there is no clang-format 14: another release breaks lines elsewhere.
"""
import pathlib
import re
import shutil
import subprocess
import sys

from sources import FOLDERS, SUFFIXES

COLUMNS = 100


def formatter():
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    return program if re.search(r"version 14\.", version) else None


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
               if path.suffix in SUFFIXES]
    found = [f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {COLUMNS}" for path in sources
             for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > COLUMNS]
    program = formatter()
    if program is None:
        print("\n".join(found) or "format: there is no clang-format 14")
        return 1 if found else 77
    ran = subprocess.run([program, "--dry-run", *map(str, sources)], capture_output=True, text=True)
    unlike = sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning", ran.stderr, re.M)))
    found += [f"{pathlib.Path(name).relative_to(root)}: not as clang-format leaves it" for name in unlike]
    if ran.returncode != 0:
        found.append(f"clang-format failed: {ran.stderr[-500:]}")
    print("\n".join(found) or "format: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
