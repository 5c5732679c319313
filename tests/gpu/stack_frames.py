"""Compiles kernels for sm_90 alone and reads what ptxas says of each: those that a step waits for keep all they work
with in registers. A stack frame is local memory: arrays whose places are known at run time only, and spilled registers.

usage: stack_frames.py SOURCE_DIR [FILE...]

FILEs instead of the list below. Skipped (77) where there is no nvcc.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Those of a step that wait for memory. Kernels of attention, which take minutes to compile, are told of spills alone, by
# every build (cmake/ds_cuda.cmake).
HOT = ["embedding/embedding_cuda", "norm/layer_norm_cuda", "matmul/finish", "reduce/reduce_cuda",
       "optimizer/rule_update_cuda", "softmax/distillation_cuda", "softmax/softmax_cuda", "optimizer/update_cuda"]
FLAGS = ["-std=c++20", "-O2", "-DNDEBUG", "-DFMT_USE_CONSTEXPR=1", "-DDS_HAS_CUDA_KERNELS", "--expt-relaxed-constexpr",
         "-gencode=arch=compute_90,code=sm_90", "-Xptxas=-v", "-cubin"]
FUNCTION = re.compile(r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
                      r"(\d+) bytes spill loads")


def nvcc():
    named = os.environ.get("CUDACXX")
    return named or shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def readable(name):
    filt = shutil.which("c++filt")
    return subprocess.run([filt, name], capture_output=True, text=True).stdout.strip() if filt else name


def kernels_in(said):
    """(name, bytes of its stack frame, bytes that it spills) of each function that ptxas tells of."""
    return [(name, int(frame), int(stores) + int(loads)) for name, frame, stores, loads in FUNCTION.findall(said)]


def compile_and_look(root, source, into):
    launcher = [shutil.which("ccache")] if shutil.which("ccache") else []
    command = [*launcher, nvcc(), *FLAGS, f"-I{root}", "-o", str(into / (source.stem + ".cubin")), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        return [f"{source}: {ran.stdout}{ran.stderr}"]
    kernels = kernels_in(ran.stdout + ran.stderr)
    if not kernels:
        return [f"{source}: ptxas told of no kernel:\n{ran.stdout}{ran.stderr}"]
    print(f"{source.relative_to(root)}: {len(kernels)} kernels")
    return [f"{source.relative_to(root)}: {readable(name)}: {frame} bytes stack frame, {spilled} bytes spilled"
            for name, frame, spilled in kernels if frame + spilled > 0]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if nvcc() is None:
        print("skipped: no nvcc")
        return 77
    folder = root / "kernels"
    sources = [pathlib.Path(file).resolve() for file in sys.argv[2:]] or [folder / f"{name}.cu" for name in HOT]
    with tempfile.TemporaryDirectory() as into, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(lambda source: compile_and_look(root, source, pathlib.Path(into)), sources)
        violations = [line for lines in found for line in lines]
    print("\n".join(violations))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
