"""Commits a fault in a kernel and checks that the sanitizer of this build names it, and every line of the
program that is marked with it.

usage: emulated_faults.py PROGRAM ITS_SOURCE FAULT
"""
import pathlib
import subprocess
import sys

POISON, RACE = "AddressSanitizer: use-after-poison", "ThreadSanitizer: data race"
WORDS = {
    "past_global": POISON,
    "past_shared": POISON,
    "past_shared_of_launch": POISON,
    "given_back": POISON,
    "misaligned": "misaligned address",
    "host_read": "AddressSanitizer: SEGV",
    "missing_barrier": RACE,
    "shuffle_for_barrier": RACE,
    "copy_for_barrier": RACE,
    "two_blocks": RACE,
    "plain_for_atomic": RACE,
}


def complaints(program, source, fault):
    ran = subprocess.run([program, fault], capture_output=True, text=True, timeout=100)
    said = ran.stdout + ran.stderr
    if fault == "none":
        return [f"exit code {ran.returncode}, and it said: {said}"] if ran.returncode != 0 or said else []
    lines = [number for number, line in enumerate(source.read_text().splitlines(), 1) if line.endswith(f"// {fault}")]
    wanted = [WORDS[fault]] + [f"{source.name}:{number}" for number in lines]
    bad = [f"it did not say: {words}" for words in wanted if words not in said]
    if not lines:
        bad.append(f"{source}: no line is marked with {fault}")
    if ran.returncode == 0:
        bad.append("exit code 0")
    return bad + [said] if bad else []


def main():
    program, source, fault = sys.argv[1:]
    found = complaints(program, pathlib.Path(source), fault)
    print("\n".join(found) or f"{fault}: as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
