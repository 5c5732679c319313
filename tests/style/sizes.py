"""Checks the size limits: a file has at most 600 lines, a function at most 70, a folder at most 35 files of its own, a
constructor at most 5 arguments, a class at most 20 members and a struct 25, a class at most 20 public methods, and no file is
named after nothing (utils, helpers, common, misc, manager). Classes that have more methods are listed; their numbers only fall.

usage: sizes.py SOURCE_DIR

Functions and members are found by Universal Ctags; without it the rest is looked at, and the exit code is 77.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

from sources import FOLDERS, SUFFIXES

MAX_FILE, MAX_FUNCTION, MAX_FILES, MAX_ARGUMENTS = 600, 70, 35, 5
MAX_MEMBERS = {"class": 20, "struct": 25}
MAX_METHODS = 20
METHODS_TODAY = {"ds::Engine": 32, "ds::ShardGroup": 29, "ds::Value": 30, "ds::chat::Value": 23}
BANNED = re.compile(r"(^|_)(utils?|helpers?|common|misc|manager)(_|\.|$)")


def tags(root, ctags):
    """Functions, prototypes and members of all sources, as Universal Ctags finds them."""
    folders = [folder for folder in FOLDERS if (root / folder).is_dir()]
    ran = subprocess.run([ctags, "--languages=C++", "--langmap=C++:+.cu.cuh.inl", "--c++-kinds=fpm", "--fields=+neSska",
                          "--output-format=json", "-f", "-", "--recurse", *folders], cwd=root, capture_output=True,
                         text=True, check=True)
    return list(map(json.loads, ran.stdout.splitlines()))


def long_functions(found):
    """Wrapped signatures count with a function."""
    for tag in found:
        length = tag.get("end", tag["line"]) - tag["line"] + 1
        if tag["kind"] == "function" and length > MAX_FUNCTION and not tag["name"].startswith("TEST_CASE"):
            yield f"{tag['path']}:{tag['line']}: function of {length} lines, at most {MAX_FUNCTION}"


def argument_count(signature):
    inside = signature[1:signature.rindex(")")].strip()
    depth, count = 0, 1 if inside else 0
    for letter in inside:
        depth += (letter in "<({[") - (letter in ">)}]")
        count += letter == "," and depth == 0
    return count


def long_constructors(found):
    for tag in found:
        owner = tag.get("scope", "").split("::")[-1]
        if tag["kind"] in ("function", "prototype") and tag["name"] == owner and not tag["path"].startswith("tests/"):
            if (count := argument_count(tag.get("signature", "()"))) > MAX_ARGUMENTS:
                yield f"{tag['path']}:{tag['line']}: {owner} is made of {count} arguments, at most {MAX_ARGUMENTS}"


def large_types(found):
    """The keys of a section of the configuration are as many as its documents say."""
    counts = collections.Counter((tag["path"], tag["scopeKind"], tag["scope"]) for tag in found
                                 if tag["kind"] == "member" and "scope" in tag)
    for (path, kind, owner), count in sorted(counts.items()):
        most = MAX_MEMBERS.get(kind)
        is_section = kind == "struct" and path.startswith("config/")
        if most and count > most and not is_section and not path.startswith("tests/"):
            yield f"{path}: {owner.split('::')[-1]} has {count} members, at most {most}"


def method_counts(found):
    """Public methods by class, without those that make, end and copy it; overloads count one by one."""
    counts = collections.Counter()
    for tag in found:
        owner, name = tag.get("scope", ""), tag["name"]
        makes = name.lstrip("~ ") == owner.split("::")[-1] or name == "operator ="
        is_own = tag["kind"] in ("function", "prototype") and tag.get("scopeKind") == "class" and not makes
        if is_own and tag.get("access") == "public" and not tag["path"].startswith("tests/"):
            counts[owner] += 1
    return counts


def wide_classes(counts):
    for owner, count in sorted(counts.items()):
        most = METHODS_TODAY.get(owner, MAX_METHODS)
        if count > most:
            yield f"{owner} has {count} public methods, at most {most}"
    for owner, listed in METHODS_TODAY.items():
        if counts[owner] < listed:
            yield f"tests/style/sizes.py: {owner} has {counts[owner]} public methods now, and {listed} in the list"


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
            if (lines := len(path.read_text().splitlines())) > MAX_FILE:
                yield f"{name}: {lines} lines, at most {MAX_FILE}"


def universal_ctags():
    program = shutil.which("ctags-universal") or shutil.which("ctags")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    return program if "Universal Ctags" in version else None


def main():
    root, ctags = pathlib.Path(sys.argv[1]), universal_ctags()
    found = list(violations(root))
    if ctags:
        known = tags(root, ctags)
        found += [*long_functions(known), *long_constructors(known), *large_types(known),
                  *wide_classes(method_counts(known))]
    print("\n".join(found) or "sizes: no violation" + ("" if ctags else "; no Universal Ctags, so no function was looked at"))
    return 1 if found else 0 if ctags else 77


if __name__ == "__main__":
    sys.exit(main())
