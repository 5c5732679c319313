"""Checks that the dry run is a matter of types: outside of core and kernels, where an operation does nothing to what has no
bytes, nobody asks whether a device is meta but the few who choose between a class and its twin. There are never more of
these than today, and where there are fewer the number here is to fall.

usage: meta.py SOURCE_DIR
"""
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

# One of the tiers of a rank, of the swap files of weights and of state, of ZenFlow's columns, and of what has no bytes to
# read from a file.
MOST = 5
ASKED_FREELY = ("core", "kernels", "tests")
QUESTION = re.compile(r"\bis_meta\b|\bKind::kMeta\b|[!=]=\s*Device::meta\(\)|\bDevice::meta\(\)\s*[!=]=")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def questions(root):
    """The places that ask, as "path:line"."""
    for folder in FOLDERS:
        if folder in ASKED_FREELY:
            continue
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            text = COMMENT_OR_TEXT.sub(lambda found: " " * len(found.group()), path.read_text())
            for found in QUESTION.finditer(text):
                yield f"{path.relative_to(root).as_posix()}:{text.count(chr(10), 0, found.start()) + 1}"


def problems(root, most):
    found = list(questions(root))
    if len(found) > most:
        yield (f"{len(found)} questions whether a device is meta, at most {most}; give the dry run a twin behind an "
               f"interface: {', '.join(found)}")
    if len(found) < most:
        yield f"{len(found)} questions whether a device is meta: let MOST of meta.py fall from {most} to that"


if __name__ == "__main__":
    wrong = list(problems(pathlib.Path(sys.argv[1]), MOST))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
