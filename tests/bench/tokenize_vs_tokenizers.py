"""Encoding the lines of a text on one thread against PyPI tokenizers, one after the other in each round.

usage: tokenize_vs_tokenizers.py BIN_DIR TEXT TOKENIZER_JSON... [--python PYTHON] [--rounds N]

PYTHON must have tokenizers. Both must find the same number of ids. Printed are the medians of the rounds' seconds and of their ratios.
"""
import argparse
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent


def measured(command):
    seconds, ids = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for tokenizer in args.tokenizers:
        ours, theirs = [], []
        for _ in range(args.rounds):
            seconds, ids = measured([args.bin_dir / "tokenizer_bench", tokenizer, args.text])
            ours.append(seconds)
            seconds, expected = measured([args.python, HERE / "peers/tokenizers_encode.py", tokenizer, args.text])
            theirs.append(seconds)
            if ids != expected:
                raise SystemExit(f"{tokenizer}: {ids} ids, expected {expected}")
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print(f"{pathlib.Path(tokenizer).name}: {statistics.median(ours):.3f} s, tokenizers {statistics.median(theirs):.3f} s, "
              f"ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
