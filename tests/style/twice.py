"""Checks that no two libraries define one symbol: which of them a program would have depends on what else it links, and
with both it links at all only by chance.

usage: twice.py BUILD_DIR
"""
import collections
import pathlib
import sys

import unlinked


def defined_twice(archives):
    places = collections.defaultdict(set)
    for archive in archives:
        for _, kind, name in unlinked.symbols(archive):
            if kind in "TDBR":
                places[name].add(archive.stem.removeprefix("lib"))
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def main():
    archives = sorted(pathlib.Path(sys.argv[1]).glob("*/**/libds_*.a"))
    found = defined_twice([archive for archive in archives if "tests" not in archive.parts])
    print("\n".join(f"{name}: defined by {' and '.join(where)}" for name, where in sorted(found.items()))
          or f"twice: {len(archives)} libraries, no violation")
    return 1 if found or not archives else 0


if __name__ == "__main__":
    sys.exit(main())
