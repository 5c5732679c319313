"""Checks the size limits: a file has at most 600 lines, a function at most 70, a folder at most 35 files of
its own, a class at most 20 members, and no file or folder is named after nothing (utils, helpers, common,
misc, manager).

usage: sizes.py SOURCE_DIR

Functions are found by Universal Ctags; without it the rest is looked at, and the exit code is 77. Members of classes are
found by their layout (clang-format, Google).
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

from sources import FOLDERS, SUFFIXES

MAX_FILE, MAX_FUNCTION, MAX_FILES, MAX_MEMBERS = 600, 70, 35, 20
BANNED = re.compile(r"(^|_)(utils?|helpers?|common|misc|manager)(_|\.|$)")


def functions(root, ctags):
    """(file, first line, length) of every function that has a body; wrapped signatures count with it."""
    folders = [folder for folder in FOLDERS if (root / folder).is_dir()]
    ran = subprocess.run([ctags, "--languages=C++", "--langmap=C++:+.cu.cuh.inl", "--c++-kinds=f", "--fields=+ne",
                          "--output-format=json", "-f", "-", "--recurse", *folders], cwd=root, capture_output=True,
                         text=True, check=True)
    for tag in map(json.loads, ran.stdout.splitlines()):
        if "end" in tag and not tag["name"].startswith("TEST_CASE"):
            yield tag["path"], tag["line"], tag["end"] - tag["line"] + 1


CLASS = re.compile(r"^class (\w+)[^;{]*\{\n(.*?)^\};", re.S | re.M)
MEMBER = re.compile(r"^  (?:\S[^()\n]*|\}) ?\b\w+_(?:\{.*\}| = .*|\[.*\])?;", re.M)


def members(text):
    """(name, data members) of every class at namespace level."""
    for found in CLASS.finditer(text):
        yield found.group(1), len(MEMBER.findall(found.group(2)))


def violations(root):
    for folder in FOLDERS:
        for path in [root / folder, *sorted((root / folder).rglob("*"))]:
            if path.is_dir() and (count := sum(1 for file in path.iterdir() if file.is_file())) > MAX_FILES:
                yield f"{path.relative_to(root).as_posix()}: {count} files, at most {MAX_FILES}"
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            if BANNED.search(path.name):
                yield f"{name}: a file without a subject"
            lines = path.read_text().splitlines()
            if len(lines) > MAX_FILE:
                yield f"{name}: {len(lines)} lines, at most {MAX_FILE}"
            for owner, count in members("\n".join(lines)):
                if folder != "tests" and count > MAX_MEMBERS:
                    yield f"{name}: {owner} has {count} members, at most {MAX_MEMBERS}"


def long_functions(root, ctags):
    for name, line, length in functions(root, ctags):
        if length > MAX_FUNCTION:
            yield f"{name}:{line}: function of {length} lines, at most {MAX_FUNCTION}"


def universal_ctags():
    program = shutil.which("ctags-universal") or shutil.which("ctags")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    return program if "Universal Ctags" in version else None


def main():
    root, ctags = pathlib.Path(sys.argv[1]), universal_ctags()
    found = list(violations(root)) + (list(long_functions(root, ctags)) if ctags else [])
    print("\n".join(found) or "sizes: no violation" + ("" if ctags else "; no Universal Ctags, so no function was looked at"))
    return 1 if found else 0 if ctags else 77


if __name__ == "__main__":
    sys.exit(main())
