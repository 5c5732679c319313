"""Puts known faults into product files, one at a time, and shows that a named test finds each.

usage: run.py SOURCE_DIR BUILD_DIR [--table FILE] [--device D] [--jobs J] [--nightly] [--part K/N] [--only NAME ...]
       run.py SOURCE_DIR BUILD_DIR [--table FILE] --texts

The table (table.toml, by default) says of every mutant: the file, what to replace with what, why that is a fault, and
who must find it: `PROGRAM: TEST CASE` of a unit test program, or `sim: N` for N simulated schedules from seed 1. Only
the changed file is compiled (of a header, the source that `compiled_in` names), with those that the build joins it to;
it is linked before all else into a copy of the program, whose run must then fail.
With --device the unit tests run on that device, or on the `device` of a mutant; cuda.toml is for the emulated one, and a
build for it.
Mutants of code that not every processor runs say what it `needs` and are left out elsewhere.
Mutants marked `nightly` take longer and are left out without --nightly. --part K/N tries every Nth mutant, from the Kth on;
with `today` for K the next one each day, so that N days try the whole table. That every text is there is seen to of all;
with --texts that alone is.

Ends with 0 if every mutant was found. An error, and the end with 2, is: a text that is not there exactly once, a change
that does not compile or link, a test case that is not there, and a program that fails without any change, rebuilt in
the same way.
"""
import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ci"))
import units  # noqa: E402

LIMIT_S = 120  # a mutant that hangs has been found, too
SCHEDULE_S = 0.1  # of the limit, for each simulated one
SEED = 1


class Dishonest(Exception):
    """The run proves nothing."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    find: str
    replace: str
    why: str
    found_by: str
    compiled_in: str = ""
    needs: str = ""  # of the processor, as /proc/cpuinfo names it: elsewhere nothing runs that code
    device: str = ""  # on which the test runs, where that is another than the table's
    nightly: bool = False

    @property
    def unit(self):
        """The source that is compiled: the file itself, or one that includes it."""
        return self.compiled_in or self.file

    @property
    def program(self):
        return self.found_by.partition(":")[0].strip()

    @property
    def wanted(self):
        return self.found_by.partition(":")[2].strip()


def read_table(path):
    entries = tomllib.loads(path.read_text())["mutant"]
    try:
        mutants = [Mutant(**entry) for entry in entries]
    except TypeError as error:
        raise Dishonest(f"{path}: {error}") from None
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            raise Dishonest(f"{path}: two mutants are called {name}")
    return mutants


def changed_text(source, mutant):
    path = source / mutant.file
    text = path.read_text() if path.exists() else ""
    count = text.count(mutant.find)
    if count != 1 or not mutant.find:
        raise Dishonest(f"{mutant.name}: the text to replace is {count} times in {mutant.file}, expected once")
    if mutant.find == mutant.replace:
        raise Dishonest(f"{mutant.name}: changes nothing")
    if not mutant.unit.endswith((".cpp", ".cu")) or not (source / mutant.unit).exists():
        raise Dishonest(f"{mutant.name}: nothing compiles {mutant.unit}; expected a source that includes it, as compiled_in")
    return text.replace(mutant.find, mutant.replace)


class Builder:
    """Compiles one file anew and links it into a copy of a program, with the commands of the build."""

    def __init__(self, source, build):
        self.source, self.build = source, build
        listed = subprocess.run(["ninja", "-C", str(build), "-t", "compdb"], capture_output=True, text=True, check=True)
        self.compilations = {}
        compiled = [entry for entry in json.loads(listed.stdout) if entry["output"].endswith(".o")]
        for file, entry in units.by_source(compiled, source):
            self.compilations.setdefault(file, entry)
        self.links = {}

    def link_command(self, program):
        if program not in self.links:
            listed = subprocess.run(["ninja", "-C", str(self.build), "-t", "commands", f"bin/{program}"],
                                    capture_output=True, text=True)
            if listed.returncode != 0:
                raise Dishonest(f"{program}: no such program in {self.build}")
            self.links[program] = listed.stdout.splitlines()[-1]
        return self.links[program]

    def make(self, folder, mutant, text):
        """The program with this text in place of the mutant's file; its path."""
        file, unit, program = mutant.file, mutant.unit, mutant.program
        entry = self.compilations.get(str(self.source / unit))
        if entry is None:
            raise Dishonest(f"{unit}: nothing compiles it")
        shutil.rmtree(folder, ignore_errors=True)
        changed = folder / file
        changed.parent.mkdir(parents=True)
        changed.write_text(text)
        compiled = folder / (unit + ".o")
        compiled.parent.mkdir(parents=True, exist_ok=True)
        arguments = shlex.split(entry["command"])
        original = entry["file"]
        kept, skip = [], False
        for argument in arguments:  # without dependency files, and to another place
            if skip or argument in ("-MD", "-c"):
                skip = False
            elif argument in ("-MT", "-MF", "-o"):
                skip = True
            elif argument != original:
                kept.append(argument)
        # A change may leave something unused behind.
        # Headers are looked for in the folder of the change first, and so is what Highway includes again for each target.
        first = next(i for i, argument in enumerate(kept) if argument.startswith("-I"))
        kept.insert(first, f"-I{folder}")
        to_compile = self.source / unit if unit != file else changed
        if units.is_joined(original):  # with its companions, in a copy of the unit that includes the change
            to_compile = compiled.with_suffix(".joined.cpp")
            as_built = pathlib.Path(entry["directory"], original).read_text()
            to_compile.write_text(as_built.replace(f'"{file}"', f'"{changed}"'))
        kept += ["-Wno-error", "-g0", "-O1", "-c", str(to_compile), "-o", str(compiled)]
        self.run(kept, f"{unit} does not compile")
        made = folder / program
        # The change comes first: of a function that many objects have, as those of headers, the linker takes the first.
        # The object that it replaces is left out, and a library's of the same name is not needed any more.
        words = []
        for word in shlex.split(self.link_command(program)):
            if word in (entry["output"], unit + ".o") or word.endswith("/" + unit + ".o"):
                continue
            words.append(str(made) if word == f"bin/{program}" else word)
        objects = (i for i, word in enumerate(words) if word.endswith(".o"))
        words.insert(next(objects, words.index("-o")), str(compiled))
        inner = [word for word in words if word not in (":", "&&")]
        self.run(inner, f"{program} does not link with {unit}")
        return made

    def run(self, arguments, what):
        done = subprocess.run(arguments, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise Dishonest(f"{what}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def arguments_for(mutant, device):
    if mutant.program == "sim":
        return ["--seed", str(SEED), "--count", mutant.wanted, "--quiet"]
    device = mutant.device or device
    return [*(["--device", device] if device else []), re.sub(r"([,\[\]\\])", r"\\\1", mutant.wanted)]


def fails(program, mutant, source, device):
    """Whether the test fails, and the first word on why."""
    limit = LIMIT_S + (SCHEDULE_S * int(mutant.wanted) if mutant.program == "sim" else 0)
    try:
        done = subprocess.run([str(program), *arguments_for(mutant, device)], cwd=source, capture_output=True, text=True,
                              errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return True, f"no end after {limit:.0f} s"
    if "No test cases matched" in done.stdout + done.stderr or "No tests ran" in done.stdout + done.stderr:
        raise Dishonest(f"{mutant.name}: {mutant.program} has no test case \"{mutant.wanted}\"")
    lines = [line.strip() for line in done.stdout.splitlines()]
    told = [line for line in lines if re.search(r"FAILED:|^seed \d+:|terminate|due to", line)]
    return done.returncode != 0, (told or lines[-1:] or ["no word"])[0]


def check_unchanged(builder, mutants, scratch, device):
    """Every test that is asked passes, in a program that was made in the same way."""
    made = {}
    for mutant in mutants:
        if mutant.program not in made:
            text = (builder.source / mutant.file).read_text()
            made[mutant.program] = builder.make(scratch / f"unchanged-{mutant.program}", mutant, text)
    asked = {mutant.found_by: mutant for mutant in mutants if mutant.program != "sim"}
    simulated = [mutant for mutant in mutants if mutant.program == "sim"]
    if simulated:  # the most schedules hold the others
        most = max(simulated, key=lambda mutant: int(mutant.wanted))
        asked[most.found_by] = most
    for mutant in asked.values():
        failed, why = fails(made[mutant.program], mutant, builder.source, device)
        if failed:
            raise Dishonest(f"{mutant.found_by}: fails without any change: {why}")


def hunt(builder, mutant, scratch, device):
    start = time.monotonic()
    folder = scratch / mutant.name
    program = builder.make(folder, mutant, changed_text(builder.source, mutant))
    found, why = fails(program, mutant, builder.source, device)
    shutil.rmtree(folder)
    return found, why, time.monotonic() - start


def part_of(mutants, part):
    """Those of `K/N`."""
    first, _, count = part.partition("/")
    days = datetime.date.today().toordinal()
    try:
        count = int(count)
        first = days % count if first == "today" else int(first) - 1
    except (ValueError, ZeroDivisionError):
        first = -1
    if count == "" or not 0 <= first < int(count):
        raise Dishonest(f"--part {part}: expected K/N with K from 1 to N, or today/N")
    return mutants[first::count]


def look_at_texts(args):
    """What a change of a product file breaks in the table, without building anything."""
    mutants = read_table(args.table)
    for mutant in mutants:
        changed_text(args.source, mutant)
    print(f"{len(mutants)} mutants: the text of each is in its file once")
    return 0


def run_all(args):
    mutants = [mutant for mutant in read_table(args.table)
               if (args.nightly or not mutant.nightly) and (not args.only or mutant.name in args.only)]
    for mutant in mutants:
        changed_text(args.source, mutant)
    mutants = part_of(mutants, args.part)
    processor = pathlib.Path("/proc/cpuinfo").read_text().split()
    for mutant in mutants:
        if mutant.needs and mutant.needs not in processor:
            print(f"{mutant.name:<32} left out: this processor has no {mutant.needs}")
    mutants = [mutant for mutant in mutants if not mutant.needs or mutant.needs in processor]
    if not mutants:
        raise Dishonest("no mutant is left to try")
    builder = Builder(args.source, args.build)
    scratch = args.build / "mutants"
    check_unchanged(builder, mutants, scratch, args.device)
    survived, start = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        hunts = pool.map(lambda mutant: hunt(builder, mutant, scratch, args.device), mutants)
        for mutant, (found, why, seconds) in zip(mutants, hunts):
            survived += not found
            print(f"{mutant.name:<32} {'found' if found else 'SURVIVED'} by {mutant.found_by} ({seconds:.1f} s): {why}",
                  flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(mutants)} mutants, {survived} survived, {time.monotonic() - start:.0f} s")
    return 1 if survived else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--table", type=pathlib.Path, default=pathlib.Path(__file__).with_name("table.toml"))
    parser.add_argument("--device", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--texts", action="store_true", help="only look whether each text to replace is there")
    args = parser.parse_args()
    try:
        return look_at_texts(args) if args.texts else run_all(args)
    except Dishonest as error:
        print(f"error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
