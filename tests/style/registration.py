"""Checks that every test source is built: a tests/**/*_test.cpp that the nearest CMakeLists.txt above does not name
would never run, and nobody would notice.

usage: registration.py SOURCE_DIR
"""
import pathlib
import re
import sys


def list_above(path):
    return next(folder / "CMakeLists.txt" for folder in path.parents if (folder / "CMakeLists.txt").exists())


def unnamed(root):
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        if not re.search(rf"\b{re.escape(path.name)}\b", list_above(path).read_text()):
            yield path.relative_to(root).as_posix()


def main():
    found = list(unnamed(pathlib.Path(sys.argv[1])))
    for name in found:
        print(f"{name}: not named in the CMakeLists.txt above it, so it is never built")
    sys.exit(1 if found else 0)


main()
