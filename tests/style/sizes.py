"""Checks the size limits: a file has at most 600 lines, a function at most 70, a folder at most 40 files of
its own, a class at most 20 members, and no file or folder is named after nothing (utils, helpers, common,
misc, manager).

usage: sizes.py SOURCE_DIR

Functions are found by their layout: a line at namespace level that ends in `{` opens one, the next `}`
at the same indentation closes it; members and nested blocks are indented deeper (clang-format, Google).
Inside classes, members are looked at in the same way, one level deeper.
"""
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

MAX_FILE, MAX_FUNCTION, MAX_FILES, MAX_MEMBERS = 600, 70, 40, 20
NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|TEST_CASE|\}|template\b.*\bclass\b.*\{$)")
BANNED = re.compile(r"(^|_)(utils?|helpers?|common|misc|manager)(_|\.|$)")


def functions(lines):
    """(first line, length) of every function-like block."""
    for start, line in enumerate(lines):
        if not line.rstrip().endswith("{") or not re.match(r"^(  )?\S", line):
            continue
        if "(" not in "".join(lines[max(0, start - 8):start + 1]) or NO_FUNCTION.match(line):
            continue
        indent = line[:len(line) - len(line.lstrip())]
        for end in range(start + 1, len(lines)):
            if lines[end].startswith(indent + "}"):
                yield start + 1, end - start + 1
                break


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
            for line, length in functions(lines):
                if length > MAX_FUNCTION:
                    yield f"{name}:{line}: function of {length} lines, at most {MAX_FUNCTION}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "sizes: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
