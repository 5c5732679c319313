"""Training speed of one build beside that of an earlier one: steps of both by turns, a process for each, with random weights and
tokens.

usage: before_and_after.py BIN_DIR BIN_DIR_BEFORE [--rounds N] [train_bench's options ...]

Printed is the median of the rounds' ratios of tokens per second, and the rounds. The folders hold train_bench of either build.
"""
import argparse
import pathlib
import statistics

import figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=11)
    args, words = parser.parse_known_args()

    def rate_of(folder):
        return statistics.median(figures.of_train_bench(folder, words)["tokens_per_s"])

    ratios = figures.ratios_of(args.rounds, rate_of, args.after, args.before, "tokens/s")
    print(f"{' '.join(words)}: {figures.told(ratios)}")


if __name__ == "__main__":
    main()
