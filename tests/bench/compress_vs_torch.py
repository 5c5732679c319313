"""Compression to signs with error feedback (1-bit Adam's) against torch and numpy, one after the other in each round.

usage: compress_vs_torch.py BIN_DIR [--python PYTHON] [--rounds N] [--threads N] [NUMEL...]

PYTHON must have torch and numpy. Printed are the medians of the rounds: our numbers per second, and how many times as fast
it is. Goals: 2e9 on two cores, 15.
"""
import argparse
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent


def seconds(command):
    return float(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("numel", nargs="*", type=int, default=[1 << 20, 1 << 22, 1 << 24, 1 << 26])
    args = parser.parse_intermixed_args()
    for numel in args.numel:
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(seconds([args.bin_dir / "optimizer_bench", "--compress", args.threads, numel]))
            theirs.append(seconds([args.python, HERE / "peers/torch_signs.py", args.threads, numel]))
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print(f"{numel} numbers: {numel / statistics.median(ours) * 1e-9:.2f} G/s, torch and numpy "
              f"{numel / statistics.median(theirs) * 1e-9:.3f} G/s, ratio {ratio:.1f}", flush=True)


if __name__ == "__main__":
    main()
