"""Training speed of this build against PyTorch on the GPT-2 124M shape, interleaved.

usage: train_vs_torch.py BIN_DIR [--python PYTHON] [--rounds N] [--compile] [--quick]
                         [--shapes 4x64,2x512] [--thread-counts 1,2] [--zero fp32,bf16]

Each round runs both programs one after the other; printed are the medians of the rounds' tokens per
second and of the per-round ratios. PYTHON must have torch; without it only this build is measured.
The best of PyTorch's variants (eager, and compiled with --compile) counts in a round.
"""
import argparse
import contextlib
import json
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


class Torch:
    """A process that has warmed up and makes steps when it is asked; asleep otherwise."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"not ready: {command}")

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


def against_torch(args, bench, dtype, threads, batch, length):
    torch = [args.python, str(HERE / "peers" / "torch_gpt2.py")]
    have_torch = subprocess.run([args.python, "-c", "import torch"], capture_output=True).returncode == 0
    common = flags(dtype, threads, batch, length, args.steps)
    variants = [[], ["--compile"]] if args.compile else [[]]
    ours, ratios = [], []
    theirs = [[] for _ in variants]
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Torch([*torch, *common, *variant])) for variant in variants if have_torch]
        for _ in range(args.rounds):
            ours.append(rate([bench, *common]))
            for rates, peer in zip(theirs, peers):
                rates.append(peer.rate())
            if peers:
                ratios.append(ours[-1] / max(rates[-1] for rates in theirs))
    line = f"B={batch} T={length} {dtype} {threads} threads: {statistics.median(ours):7.1f} tok/s"
    if ratios:
        for name, rates in zip(("eager", "compiled"), theirs):
            line += f", torch {name} {statistics.median(rates):7.1f}"
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
    parser.add_argument("--compile", action="store_true")
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
        for dtype in ("fp32", "bf16"):
            for threads in map(int, args.thread_counts.split(",")):
                against_torch(args, bench, dtype, threads, batch, length)
    for dtype in filter(None, args.zero.split(",")):
        zero_stages(args, bench, dtype)


if __name__ == "__main__":
    main()
