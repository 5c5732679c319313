"""Checks that a build without CUDA has read no file of CUDA: one that includes a header which only some machines have
compiles on those and nowhere else.

usage: cuda_free.py BUILD_DIR   (of a Ninja build; reads the dependencies that it has recorded)
"""
import os
import re
import subprocess
import sys

FOREIGN = re.compile(r"/cuda[^/]*/|/(cublas|cudnn|nccl|cufile|cuda|curand)[A-Za-z_]*\.h$")


def main(build):
    build = os.path.abspath(build)
    source = os.path.dirname(build)
    said = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found, made, count = [], "", 0
    for line in said.splitlines():
        if line and not line[0].isspace():
            made, count = line.split(":")[0], count + 1
        elif FOREIGN.search(line):
            path = os.path.normpath(os.path.join(build, line.strip()))
            if not path.startswith(source + os.sep):
                found.append(f"{made} reads {path}")
    if not count:
        sys.exit(f"{build} has recorded no dependencies, so nothing was looked at")
    for line in found:
        print(line)
    print(f"{count} objects, {len(found)} reads of CUDA's files")
    return bool(found)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
