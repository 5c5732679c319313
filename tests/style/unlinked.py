"""Checks that every object of the layers' libraries is part of dslaunch or rankd, or is named in
tests/style/unlinked.txt with the feature that it waits for. What no program links is looked after by nobody.

Where sources are joined (DS_JOINED), those that are not in the list are looked at unit by unit; a build without that looks
at each.

usage: unlinked.py SOURCE_DIR BUILD_DIR
"""
import collections
import pathlib
import subprocess
import sys

PROGRAMS = ["dslaunch", "rankd"]


def symbols(path):
    """((number, name) of the object of an archive, kind, name) of everything defined in a file. Objects of several
    folders may have one name."""
    number, member = 0, ""
    listed = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        words = line.split()
        if line.endswith(".o:"):
            number, member = number + 1, line.removesuffix(".cpp.o:")
        elif len(words) >= 3:
            yield (number, member), words[1], words[2]


def unlinked(build):
    linked = {name for program in PROGRAMS for _, _, name in symbols(build / "bin" / program)}
    for archive in sorted(build.glob("*/libds_*.a")):
        if archive.parent.name == "tests":
            continue
        owned = collections.defaultdict(set)
        for (number, member), kind, name in symbols(archive):
            if member.endswith(".cu.o:"):  # a CUDA half is linked where its front function is
                continue
            if kind in "TDBR":  # inline functions (W) are in every object that calls them
                owned[number, f"{archive.parent.name}/{member}"].add(name)
        yield from (name for (_, name), defined in owned.items() if not defined & linked)


def main():
    source, build = map(pathlib.Path, sys.argv[1:])
    waiting = dict(line.split(": ", 1) for line in (source / "tests/style/unlinked.txt").read_text().splitlines()
                   if line and not line.startswith("#"))
    found = set(unlinked(build))
    bad = [f"{name}: no program links it; use it, delete it, or say in unlinked.txt what it waits for"
           for name in sorted(found - waiting.keys())]
    bad += [f"{name}: in unlinked.txt, but a program links it or it is gone" for name in sorted(waiting.keys() - found)]
    print("\n".join(bad) or f"unlinked: {len(found)} objects wait for their feature, no violation")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
