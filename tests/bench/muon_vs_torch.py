"""A step of Muon against torch.optim.Muon over the same matrices, one after the other in each round.

usage: muon_vs_torch.py BIN_DIR [--python PYTHON] [--rounds N] [--threads N] [SHAPES...]

PYTHON must have a torch with torch.optim.Muon, which iterates in bf16; so does ours here, as it does for a model in bf16. SHAPES are ROWSxCOLUMNS; by default the matrices of a block
of GPT-2 124M, then square ones. Printed are the medians of the rounds' seconds and of their ratios.
"""
import argparse
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
BLOCK = ["768x2304", "768x768", "768x3072", "3072x768"]


def seconds(command):
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("shapes", nargs="*")
    args = parser.parse_intermixed_args()
    for shapes in [args.shapes] if args.shapes else [BLOCK, ["1024x1024"]]:
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(seconds([args.bin_dir / "optimizer_bench", "--muon", str(args.threads), "bf16", *shapes]))
            theirs.append(seconds([args.python, HERE / "peers/torch_muon.py", str(args.threads), *shapes]))
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print(f"{' '.join(shapes)}: {statistics.median(ours):.3f} s, torch {statistics.median(theirs):.3f} s, "
              f"ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
