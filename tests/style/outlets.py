"""Checks that what strangers may have written comes in and goes out through the few places made for it, and that nothing
yields the processor.

usage: outlets.py SOURCE_DIR

In launcher/ files are read by process/input_file.h alone, which neither waits nor reads without end. In launcher/ and
rankd/ nothing is printed but by cli/text/terminal_text.h and what shows text as that does. JSON is parsed without recursion,
so that its depth costs no stack. Waits sleep, as core/tasks/flag.h and core/tasks/poll_pause.h do: beside busy neighbours
a yield costs milliseconds. Exit status 1 with one line per violation.
"""
import pathlib
import re
import sys

from sources import SUFFIXES

PRODUCT = ["core", "kernels", "config", "proto", "cli", "comm", "offload", "model", "optim", "data", "zero", "checkpoint",
           "train", "generate", "rankd", "launcher"]

# what is looked for -> (folders, files that may, what to use instead)
RULES = [
    (r"\bstd::(?:ifstream|fstream)\b|\bf(?:d)?open\s*\(", ["launcher"], [],
     "files are read by launcher/process/files/input_file.h"),
    (r"\bfmt::v?print\s*\(|\bstd::(?:fputs|puts|printf|fprintf|fwrite|cout|cerr)\b", ["launcher", "generate", "rankd"],
     ["rankd/verbs/terminal/input_texts.cpp"], "text is printed by say(), of cli/text/terminal_text.h"),
    (r"\bsched_yield\b|\bthis_thread::yield\b", PRODUCT, ["core/tasks/flag.h"],
     "waits sleep: core/tasks/flag.h, core/tasks/poll_pause.h"),
]
PARSES = re.compile(r"\.Parse\s*(<[^(;]*>)?\s*\(")
ITERATIVE = "kParseIterativeFlag"


def sources(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(root).as_posix(), path.read_text()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def are_iterative(flags, text):
    """Whether the flags, or the constant of this file that they are, say so."""
    constant = re.search(rf"\b{flags}\s*=([^;]*);", text) if re.fullmatch(r"\w+", flags) else None
    return ITERATIVE in (constant.group(1) if constant else flags)


def violations(root):
    for pattern, folders, may, instead in RULES:
        for name, text in sources(root, folders):
            if name in may:
                continue
            for found in re.finditer(pattern, text):
                yield f"{name}:{line_of(text, found.start())}: {found.group(0).strip()}: {instead}"
    for name, text in sources(root, PRODUCT):
        for found in PARSES.finditer(text):
            if not are_iterative((found.group(1) or "").strip("<>"), text):
                yield f"{name}:{line_of(text, found.start())}: JSON is parsed with {ITERATIVE}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "outlets: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
