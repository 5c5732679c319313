"""Checks that comments of C++ sources are sentences as far as that shows: none begins with Of, Where, Likewise or By,
which leave the subject or the verb out; and that names are the field's words.

usage: words.py SOURCE_DIR
"""
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

COMMENT = re.compile(r"\s*//")
# What was called so once -> what an engineer of the field greps for.
DIALECT = {
    re.compile(r"\b(?:Shard|Rolling|Zenflow|Device|Host|Split)Homes?\b"): "OptimizerStateStore",
    re.compile(r"\bWeights(?:Out|Elsewhere)\b"): "WeightUpload, OffloadedSlice",
    re.compile(r"\b(?:WorkAhead|LateWork)\b"): "SpeculativeUpdate, DeferredUpdate",
    re.compile(r"\bGroupExtras\b"): "AuxiliaryState",
    re.compile(r"\bBeside[A-Z]\w*"): "Background...",
    re.compile(r"\bStepPlace\b"): "StepResources",
    re.compile(r"\bPeerThread\b"): "CommThread",
    re.compile(r"\b(?:carry_out|tell_\w+)\("): "execute, report",
}
FRAGMENT = re.compile(r"\s*// ?(Of|Where|Likewise|By)\b")


def violations(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            lines = path.read_text().splitlines()
            for number, (before, line) in enumerate(zip(["", *lines], lines), 1):
                found = FRAGMENT.match(line)
                if found and not COMMENT.match(before):
                    yield f"{path.relative_to(root).as_posix()}:{number}: a comment that begins with {found.group(1)}"
                for pattern, words in DIALECT.items():
                    if found := pattern.search(line):
                        yield f"{path.relative_to(root).as_posix()}:{number}: {found.group()}, which the field calls {words}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "words: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
