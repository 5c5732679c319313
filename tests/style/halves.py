"""Checks that every family of kernels has its parts beside each other: the front NAME.h and NAME.cpp, which checks
operands, reports the cost and hands on; the CPU half NAME_cpu; the CUDA half NAME_cuda. A half that has several files
calls them NAME_cuda_PIECE, or has a folder cuda/ of its own. A family is what its header is called: that of a front that
calls on_device(), or one that declares the NAME_cpu() or NAME_cuda() of a half. Each part has a header and a source, each
function of a half its like in the other one, and every on_device() names both.

usage: halves.py SOURCE_DIR
"""
import collections
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

# What has one half only, family or function, and what the other one waits for.
ONE_HALF = {
    "check_targets": "on a CUDA device the loss finds wrong targets itself, while it reads them",
}

# (what a front must not have, what it is)
COMPUTES = [
    (re.compile(r'^\s*#\s*include\s*[<"](hwy/[^>"]+|[^>"]+\.inl|kernels/cpu/simd\.h)[>"]'), "vectors of the CPU"),
    (re.compile(r"\b(DS_SIMD\w*|HWY_\w+)\b"), "vectors of the CPU"),
    (re.compile(r"\b(on_float|parallel_for|for_each_thread)\b"), "work on elements"),
]
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
HALVES = {"cpu": ".cpp", "cuda": ".cu"}
OF_A_HALF = re.compile(r"_(cpu|cuda)(_\w+)?$")
# A CUDA half whose kernels are a library's is C++.
SUFFIXES_OF = {"cpu": (".cpp",), "cuda": (".cu", ".cpp")}
WHAT = {"cpu": "the CPU half", "cuda": "the CUDA half"}


def blanked(text):
    """The text without comments and strings, in which every character is where it was; includes stay."""
    def blank(found):
        line = text[text.rfind("\n", 0, found.start()) + 1:found.start()]
        return found.group() if line.lstrip().startswith("#") else " " * len(found.group())
    return COMMENT_OR_TEXT.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def arguments(text, opening):
    """The arguments of a call whose parenthesis opens there."""
    depth, begin, found = 0, opening + 1, []
    for at in range(opening, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[begin:at])
            begin = at + 1
        if depth == 0:
            break
    return found


def named(text, half):
    return [(found.group(1), found.start()) for found in re.finditer(rf"\b(\w+)_{half}\s*\(", text)]


class Kernels:
    def __init__(self, root):
        self.root = root
        self.texts = {path.relative_to(root): blanked(path.read_text())
                      for folder in FOLDERS if folder != "tests" for path in sorted((root / folder).rglob("*"))
                      if path.suffix in SUFFIXES}
        self.needed = set()  # names of ONE_HALF that were asked for

    def waits(self, *names):
        known = [name for name in names if name in ONE_HALF]
        self.needed.update(known)
        return bool(known)

    def half_of(self, path):
        """"cpu", "cuda" or None, of what may be a front; "" of what is no kernel."""
        if path.parts[0] != "kernels":
            return ""
        named_so = OF_A_HALF.search(path.stem)
        if path.parent.name in HALVES:
            return path.parent.name
        return named_so.group(1) if named_so else None

    def calls(self):
        for path, text in self.texts.items():
            if path.as_posix() != "core/device/dispatch.h":
                for found in re.finditer(r"\bon_device\s*\(", text):
                    yield path, line_of(text, found.start()), arguments(text, found.end() - 1)

    def functions(self, half):
        """family -> function -> (header, line)"""
        found = collections.defaultdict(dict)
        for path, text in self.texts.items():
            if path.suffix == ".h" and self.half_of(path) == half:
                for name, at in named(text, half):
                    found[OF_A_HALF.sub("", path.stem)].setdefault(name, (path, line_of(text, at)))
        return found

    def sources(self, half, family):
        """Of a half: the files of the family's name, or what lies in the half's folder below the family's."""
        return [path for path in self.texts if self.half_of(path) == half and path.suffix in SUFFIXES_OF[half]
                and (family == OF_A_HALF.sub("", path.stem)
                     or (path.parent.name == half and family == path.parent.parent.name))]

    def wrong_calls(self):
        for path, line, given in self.calls():
            if self.half_of(path) is not None:
                yield path, line, "on_device() outside of a front"
                continue
            halves = {half: {name for argument in given[place:place + 1] for name, _ in named(argument, half)}
                      for place, half in enumerate(HALVES, 1)}
            names = set().union(*halves.values())
            for half, called in halves.items():
                if not names and not self.waits(path.stem):
                    yield path, line, f"on_device() does not name {WHAT[half]}, a function {path.stem}..._{half}()"
                for name in sorted(names - called):
                    if not self.waits(name, path.stem):
                        yield path, line, f"on_device() calls {'/'.join(sorted(names))}, but not {name}_{half}()"

    def wrong_fronts(self, fronts):
        for front in fronts:
            for number, line in enumerate(self.texts[front].splitlines(), 1):
                for pattern, what in COMPUTES:
                    if found := pattern.search(line):
                        if not self.waits(front.stem):
                            yield front, number, f"{found.group(1)}: {what} in a front, which only hands on"

    def missing_parts(self, fronts):
        declared = {half: self.functions(half) for half in HALVES}
        families = {front.stem: (front, 1) for front in fronts}
        for half in HALVES:
            for family, functions in declared[half].items():
                families.setdefault(family, next(iter(functions.values())))
        for family, (path, line) in sorted(families.items()):
            for suffix in (".h", ".cpp"):
                if not any(one.name == family + suffix and self.half_of(one) is None for one in self.texts):
                    yield path, line, f"{family} has no front kernels/.../{family}{suffix}"
            for half in HALVES:
                yield from self.missing_half(family, half, declared, path, line)

    def missing_half(self, family, half, declared, path, line):
        sources = self.sources(half, family)
        own = declared[half].get(family, {})
        if not own and not self.waits(family):
            yield path, line, f"{family} has no header of {WHAT[half]}, kernels/.../{family}_{half}.h"
        if not sources and not self.waits(family):
            yield path, line, f"{family} has no source of {WHAT[half]}, kernels/.../{family}_{half}{HALVES[half]}"
        for name, (header, at) in own.items():
            if sources and not any(name in dict(named(self.texts[source], half)) for source in sources):
                yield header, at, f"{name}_{half}() is declared, but no source of {WHAT[half]} has it"
            for other in HALVES:
                if other != half and name not in declared[other].get(family, {}) and not self.waits(name, family):
                    yield header, at, f"{name}_{half}() has no {name}_{other}() in {WHAT[other]}"

    def problems(self):
        fronts = {path for path, _, _ in self.calls() if self.half_of(path) is None}
        if not fronts:
            yield "no front found in kernels/: this check no longer reads on_device()"
        found = [*self.wrong_calls(), *self.wrong_fronts(sorted(fronts)), *self.missing_parts(fronts)]
        for path, line, what in sorted(set(found)):
            yield f"{path.as_posix()}:{line}: {what}"
        for name in sorted(set(ONE_HALF) - self.needed):
            yield f"{name}: listed in halves.py as waiting for its other half, but it has both"


def main():
    found = list(Kernels(pathlib.Path(sys.argv[1])).problems())
    print("\n".join(found) or "halves: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
