"""Runs clang-tidy over the C++ sources that the last commit or the working tree changed: over all of them it would
take longer than the other tests together.

usage: tidy.py SOURCE_DIR BUILD_DIR [FILE...]

FILEs instead of what changed; "all" for every source but CUDA's. Skipped (77) where there is no clang-tidy 14 or no git.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ci"))
import units  # noqa: E402

MOST = 16  # sources at a time; each takes some seconds


def tidy_program():
    program = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    return program if re.search(r"version 14\.", version) else None


def changed(root):
    """Paths of what differs from the commit before the last, or None where git does not know."""
    for since in (["HEAD~1"], ["HEAD"]):
        ran = subprocess.run(["git", "-C", root, "diff", "--name-only", *since], capture_output=True, text=True)
        if ran.returncode == 0:
            return ran.stdout.split()
    return None


def without_precompiled_headers(entries):
    """The entries of a compilation database, parsing everything: clang can read no precompiled header of g++, and looks
    at nothing where it is told to."""
    precompiled = re.compile(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx")
    return [entry | {"command": precompiled.sub("", entry["command"])} for entry in entries]


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    program, database = tidy_program(), build / "compile_commands.json"
    wanted = sys.argv[3:] or changed(str(root))
    if program is None or wanted is None or not database.exists():
        print("tidy: there is no " + ("clang-tidy 14" if program is None else "git history"
                                      if wanted is None else "compile_commands.json"))
        return 77
    # What nvcc compiles is not asked: clang reads it with flags that it does not know, and finds the two branches of
    # every `if constexpr` alike, in the headers too.
    entries = units.alone(json.loads(database.read_text()), root)
    compiled = sorted({os.path.relpath(entry["file"], root) for entry in entries if not entry["file"].endswith(".cu")})
    own = [name for name in compiled if not name.startswith("..") and (root / name).exists()
           and not (root / name).is_relative_to(build.resolve())]
    sources = own if wanted == ["all"] else [name for name in own if name in set(wanted)]
    if not sys.argv[3:] and len(sources) > MOST:
        print(f"tidy: the first {MOST} of {len(sources)} changed sources")
        sources = sources[:MOST]

    def look(name):
        ran = subprocess.run([program, "-quiet", "-p", parsed, str(root / name)], capture_output=True, text=True)
        lines = [line for line in ran.stdout.splitlines() if ": warning: " in line or ": error: " in line]
        # What clang says as a compiler is not asked: the sources are g++'s, and libraries' headers are not clang's.
        return [line for line in lines if line.startswith(str(root) + "/") and "[clang-diagnostic-" not in line]

    with tempfile.TemporaryDirectory() as parsed, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        (pathlib.Path(parsed) / database.name).write_text(json.dumps(without_precompiled_headers(entries)))
        found = sorted({line.removeprefix(str(root) + "/") for lines in pool.map(look, sources) for line in lines})
    print("\n".join(found) or f"tidy: {len(sources)} sources, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
