"""Checks that a family of models is named in its own files alone: no other source outside of config/families and the
tests mentions its struct. Whoever needs to know something of a family asks config/families/list.h.

usage: families.py SOURCE_DIR
"""
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

SPECIALISATION = re.compile(r"^struct Family<(\w+)>", re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    families = {found for path in sorted((root / "config/families").rglob("*.h"))
                for found in SPECIALISATION.findall(path.read_text())}
    problems = [] if len(families) > 1 else [f"only {sorted(families)} found in config/families"]
    name = re.compile(r"\b(" + "|".join(sorted(families)) + r")\b")
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            place = path.relative_to(root).as_posix()
            if path.suffix not in SUFFIXES or place.startswith(("config/families/", "tests/")):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                problems += [f"{place}:{number}: {found} is a family, which list.h is to be asked about"
                             for found in name.findall(line.split("//")[0])]
    print("\n".join(problems) or f"families: {len(families)}, no violation")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
