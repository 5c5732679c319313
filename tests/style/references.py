"""Checks that every source or document that a comment or a document names is there.

usage: references.py SOURCE_DIR

A name may be a path in the project, or the end of one. Files of other projects are not asked for: a name that begins with
a folder that this project does not have. Nor are examples (NAME.cu, a.cpp), nor what measurements say of the tree of
their day.
"""
import pathlib
import re
import subprocess
import sys

NAME = re.compile(r"(?<![\w./<*$\-{])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|cu|cuh|inl|py|sh|md|proto|cmake))\b(?![\w/*-]|\.\w)")
COMMENT = {".h": "//", ".cpp": "//", ".cu": "//", ".cuh": "//", ".inl": "//", ".proto": "//", ".py": "# ", ".sh": "# ",
           ".cmake": "# ", ".txt": "# "}
# What other projects have, builds make, and modules are called.
FOREIGN = {"cudnn_frontend.h", "foreach_target.h", "PERFORMANCE.md", "build_info.cpp", "transformer.h"}
EXAMPLE = re.compile(r"(^|/)(NAME|a(_test)?\.)")
DATED = "docs/measurements/"


def texts(path):
    """(line number, text) of what is said in a file, not what it does."""
    lines = path.read_text(errors="replace").splitlines()
    if path.suffix == ".md":
        yield from enumerate(lines, 1)
        return
    mark = COMMENT[path.suffix]
    for number, line in enumerate(lines, 1):
        _, found, said = line.partition(mark)
        if found:
            yield number, said


def ends_of(paths):
    ends = set()
    for path in paths:
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return ends


def violations(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True)
    files = listed.stdout.split("\n")
    ends, tops = ends_of(files), {name.split("/")[0] for name in files}
    for name in files:
        path = root / name
        if path.suffix not in (*COMMENT, ".md") or not path.is_file() or name.startswith(DATED):
            continue
        for number, said in texts(path):
            for found in NAME.finditer(said):
                named = found.group(1)
                is_foreign = "/" in named and named.split("/")[0] not in tops
                if named in ends or named in FOREIGN or EXAMPLE.search(named) or is_foreign:
                    continue
                yield f"{name}:{number}: there is no {named}"


def main():
    if subprocess.run(["git", "-C", sys.argv[1], "rev-parse"], capture_output=True).returncode:
        print("references: no git repository, so nobody knows which files are the project's")
        return 77
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "references: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
