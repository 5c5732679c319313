"""Training speed of this build against PyTorch on the GPT-2 124M shape, interleaved.

usage: train_vs_torch.py BIN_DIR [--python PYTHON] [--rounds N] [--quick] [--dtypes fp32,bf16]
                         [--shapes 4x64,2x512] [--thread-counts 1,2] [--zero fp32,bf16] [--finalists N]

PYTHON must have torch; without it only this build is measured. PyTorch runs eager and compiled, with malloc
asking for huge pages and with tcmalloc (where the machine has it), bf16 by autocast and pure. First every
variant makes a few steps; the best ones, the finalists, stay and are interleaved with this build: each round
runs them one after the other, and the best of them counts. Printed are the medians of the rounds' tokens per
second and of the per-round ratios.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent


def rate(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return statistics.median(json.loads(out)["tokens_per_s"])


def flags(dtype, threads, batch, length, steps):
    return ["--dtype", dtype, "--threads", str(threads), "--batch", str(batch), "--length",
            str(length), "--steps", str(steps)]


def allocators():
    """Environments in which PyTorch's memory is huge pages that are kept: name, variables."""
    found = [("malloc", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=8589934592"
                                           ":glibc.malloc.mmap_threshold=4294967296"})]
    names = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    libraries = [pathlib.Path("/usr/lib/x86_64-linux-gnu", name) for name in names]
    for library in libraries:
        if library.exists():
            return [*found, ("tcmalloc", {"LD_PRELOAD": str(library)})]
    print("no tcmalloc here: PyTorch runs without it")
    return found


def variants(dtype):
    """(name, flags, environment) of every way in which PyTorch may run this."""
    for mode, mode_flags in (("eager", []), ("compiled", ["--compile"])):
        for precision, precision_flags in ((("autocast", []), ("pure", ["--pure"])) if dtype == "bf16"
                                           else (("fp32", []),)):
            for memory, environment in allocators():
                yield (f"{mode} {precision} {memory}", [*mode_flags, *precision_flags, "--keep-grads"], environment)


class Torch:
    """A process that has warmed up and makes steps when it is asked; asleep otherwise."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | environment)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"not ready: {name}: {command}")

    def rate(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        rates = json.loads(self.process.stdout.readline())["tokens_per_s"]
        return statistics.median(rates)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def finalists(args, common, dtype, stack):
    """The best variants of PyTorch, warm. All of them at once would not fit into memory."""
    command = [args.python, str(HERE / "peers" / "torch_gpt2.py"), *common]
    tried = []
    for name, more, environment in variants(dtype):
        with Torch(name, [*command, *more], environment) as peer:
            tried.append((peer.rate(), name, more, environment))
        print(f"  torch {name}: {tried[-1][0]:.1f} tok/s", flush=True)
    tried.sort(key=lambda entry: -entry[0])
    return [stack.enter_context(Torch(name, [*command, *more], environment))
            for _, name, more, environment in tried[:args.finalists]]


def against_torch(args, bench, dtype, threads, batch, length):
    have_torch = subprocess.run([args.python, "-c", "import torch"], capture_output=True).returncode == 0
    common = flags(dtype, threads, batch, length, args.steps)
    ours, ratios = [], []
    with contextlib.ExitStack() as stack:
        peers = finalists(args, common, dtype, stack) if have_torch else []
        theirs = [[] for _ in peers]
        for _ in range(args.rounds):
            ours.append(rate([bench, *common]))
            for rates, peer in zip(theirs, peers):
                rates.append(peer.rate())
            if peers:
                ratios.append(ours[-1] / max(rates[-1] for rates in theirs))
    line = f"B={batch} T={length} {dtype} {threads} threads: {statistics.median(ours):7.1f} tok/s"
    for peer, rates in zip(peers, theirs):
        line += f", torch {peer.name} {statistics.median(rates):7.1f}"
    if ratios:
        line += f", ratio {statistics.median(ratios):.2f}"
    print(line, flush=True)


def zero_stages(args, bench, dtype):
    ratios = {stage: [] for stage in (1, 2, 3)}
    for _ in range(args.rounds):
        one = rate([bench, *flags(dtype, 2, 4, 64, args.steps)])
        for stage, values in ratios.items():
            values.append(rate([bench, *flags(dtype, 1, 4, 64, args.steps), "--ranks", "2",
                                "--stage", str(stage)]) / one)
    for stage, values in ratios.items():
        print(f"B=4 T=64 {dtype}: 2 ranks at stage {stage} against 1 rank with 2 threads: "
              f"{statistics.median(values):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--finalists", type=int, default=2, help="variants of PyTorch in the rounds")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--shapes", default="4x64,2x512", help="batch x length; empty: none")
    parser.add_argument("--thread-counts", default="1,2")
    parser.add_argument("--zero", default="fp32,bf16", help="dtypes of the ZeRO rows; empty: none")
    parser.add_argument("--quick", action="store_true", help="B=4, T=64, 2 threads only, ZeRO in fp32")
    args = parser.parse_args()
    if args.quick:
        args.shapes, args.thread_counts, args.zero = "4x64", "2", "fp32"
    bench = str(args.bin_dir / "train_bench")
    for shape in filter(None, args.shapes.split(",")):
        batch, length = map(int, shape.split("x"))
        for dtype in args.dtypes.split(","):
            for threads in map(int, args.thread_counts.split(",")):
                against_torch(args, bench, dtype, threads, batch, length)
    for dtype in filter(None, args.zero.split(",")):
        zero_stages(args, bench, dtype)


if __name__ == "__main__":
    main()
