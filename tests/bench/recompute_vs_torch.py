"""What activation checkpointing of every block costs in time, ours and torch.utils.checkpoint's, on the GPT-2 124M shape:
steps with and without it of both, one after the other in each round.

usage: recompute_vs_torch.py BIN_DIR [--python PYTHON] [--rounds N] [--dtype fp32|bf16] [--threads N] [--batch N] [--length N]

PYTHON has torch. Printed are the medians of the rounds' ratios of seconds, with / without, and of our device bytes. Goals:
1.34, and no more than PyTorch's.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

from train_vs_torch import HERE, Torch, flags


def ours(bench, common, *more):
    result = json.loads(subprocess.run([bench, *common, *more], check=True, capture_output=True, text=True).stdout)
    return statistics.median(result["tokens_per_s"]), result["device_bytes_measured"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    args = parser.parse_args()
    common = flags(args.dtype, args.threads, args.batch, args.length, args.steps)
    bench = str(args.bin_dir / "train_bench")
    peer = [args.python, str(HERE / "peers/torch_gpt2.py"), *common, "--keep-grads"]
    mine, theirs = [], []
    with Torch("plain", peer, {}) as plain, Torch("recomputing", [*peer, "--recompute"], {}) as again:
        for turn in range(args.rounds):
            kept, kept_bytes = ours(bench, common)
            recomputed, recomputed_bytes = ours(bench, common, "--recompute", "1")
            mine.append(kept / recomputed)
            theirs.append(plain.rate() / again.rate())
            print(f"  round {turn + 1}: ours {kept:.1f} and {recomputed:.1f} tok/s, {mine[-1]:.3f}; torch {theirs[-1]:.3f}",
                  flush=True)
    print(f"B={args.batch} T={args.length} {args.dtype}: seconds with recomputation / without: "
          f"{statistics.median(mine):.3f}, torch {statistics.median(theirs):.3f}; "
          f"device bytes {kept_bytes} and {recomputed_bytes}")


if __name__ == "__main__":
    main()
