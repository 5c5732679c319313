"""Training speed of one model beside another's, per floating-point operation: steps of both by turns, a process for each, with
random weights and tokens.

usage: model_vs_model.py BIN_DIR [--model NAME] [--against NAME] [--rounds N] [train_bench's options ...]

Operations are those of train_bench: products of weights and of attention, forward and backward. Printed is the median of the
rounds' ratios, and the rounds.
"""
import argparse
import pathlib
import statistics

import figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--against", default="llama-0.6b")
    parser.add_argument("--rounds", type=int, default=5)
    args, words = parser.parse_known_args()

    def rate_of(model):
        run = figures.of_train_bench(args.bin_dir, ["--model", model, *words])
        return statistics.median(run["tokens_per_s"]) * run["flops_per_token"] / 1e9

    ratios = figures.ratios_of(args.rounds, rate_of, args.model, args.against, "GFLOP/s")
    print(f"{args.model} over {args.against}: {figures.told(ratios)} per FLOP")


if __name__ == "__main__":
    main()
