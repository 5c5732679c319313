"""Encoding the lines of a text on one thread against PyPI tokenizers, and on several against one, one after the other in each round.

usage: tokenize_vs_tokenizers.py BIN_DIR TEXT TOKENIZER_JSON... [--python PYTHON] [--rounds N] [--threads N]

PYTHON must have tokenizers. All must find the same number of ids. Printed are the medians of the rounds' seconds and of their
ratios, and the most memory that ours held.
"""
import argparse
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent


def measured(command):
    """What a program printed: its seconds, then whole numbers."""
    seconds, *counts = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), *map(int, counts)


def compare(args, tokenizer):
    bench = [args.bin_dir / "tokenizer_bench", tokenizer, args.text]
    seconds = {"one": [], "many": [], "theirs": []}
    most = 0
    for _ in range(args.rounds):
        one, ids, mib = measured(bench)
        many, ids_of_many, mib_of_many = measured([*bench, str(args.threads)])
        theirs, expected = measured([args.python, HERE / "peers/tokenizers_encode.py", tokenizer, args.text])
        if {ids, ids_of_many} != {expected}:
            raise SystemExit(f"{tokenizer}: {ids} and {ids_of_many} ids, expected {expected}")
        most = max(most, mib, mib_of_many)
        for name, value in zip(seconds, (one, many, theirs)):
            seconds[name].append(value)

    def ratio(above, below):
        return statistics.median(a / b for a, b in zip(seconds[above], seconds[below]))

    median = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{pathlib.Path(tokenizer).name}: {ids} ids; one thread {median['one']:.3f} s, tokenizers {median['theirs']:.3f} s, "
          f"ratio {ratio('theirs', 'one'):.2f}; {args.threads} threads {median['many']:.3f} s, ratio {ratio('one', 'many'):.2f}; "
          f"at most {most} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for tokenizer in args.tokenizers:
        compare(args, tokenizer)


if __name__ == "__main__":
    main()
