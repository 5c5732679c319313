"""The CPU's AdamW of an offloaded step against DeepSpeed's compiled kernel, one after the other in each round: the update
alone (goal: 0.97 of its speed), and with unscaling, clipping and the copy in bf16, which are one pass of ours: against the
same as passes of their own, by our kernels (goal: 1.4) and as ZeRO-Offload does it.

usage: adam_vs_deepspeed.py BIN_DIR [--python PYTHON] [--rounds N] [--threads N] [--numel N]

PYTHON has torch and deepspeed (peers/deepspeed_adam.py). Printed are medians of seconds and of the rounds' ratios.
"""
import argparse
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent


def seconds(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in out.splitlines()[-1].split()]


def tell(name, ours, theirs):
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    print(f"{name}: {statistics.median(ours):.4f} s against {statistics.median(theirs):.4f} s, ratio {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--numel", type=int, default=1 << 26)
    args = parser.parse_args()
    sizes = [str(args.threads), str(args.numel)]
    rounds = [(seconds([args.bin_dir / "optimizer_bench", "--adam", *sizes]),
               seconds([args.python, HERE / "peers/deepspeed_adam.py", *sizes])) for _ in range(args.rounds)]
    alone, fused, passes = zip(*(ours for ours, _ in rounds))
    their_alone, their_passes = zip(*(theirs for _, theirs in rounds))
    tell("update alone, DeepSpeed's", alone, their_alone)
    tell("unscale, clip, update and copy, by passes of our own", fused, passes)
    tell("unscale, clip, update and copy, DeepSpeed's", fused, their_passes)


main()
