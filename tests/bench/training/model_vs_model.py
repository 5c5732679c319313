"""Training speed of one model beside another's, per floating-point operation: steps of both by turns, a process for each, with
random weights and tokens.

usage: model_vs_model.py BIN_DIR [--model NAME] [--against NAME] [--rounds N] [train_bench's options ...]

Operations are those of train_bench: products of weights and of attention, forward and backward. Printed is the median of the
rounds' ratios, and the rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess


def operations_per_s(args, words, model):
    done = subprocess.run([args.bin_dir / "train_bench", "--model", model, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"train_bench --model {model}: exit code {done.returncode}\n{done.stderr}")
    figures = json.loads(done.stdout)
    return statistics.median(figures["tokens_per_s"]) * figures["flops_per_token"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--against", default="llama-0.6b")
    parser.add_argument("--rounds", type=int, default=5)
    args, words = parser.parse_known_args()
    ratios = []
    for turn in range(args.rounds):
        # Who comes second finds the machine warmer.
        order = [args.model, args.against] if turn % 2 == 0 else [args.against, args.model]
        rates = {model: operations_per_s(args, words, model) for model in order}
        ratios.append(rates[args.model] / rates[args.against])
        print(f"round {turn + 1}: {rates[args.model] / 1e9:.1f} against {rates[args.against] / 1e9:.1f} GFLOP/s", flush=True)
    print(f"{args.model} over {args.against}: {statistics.median(ratios):.4f} per FLOP ({', '.join(f'{r:.4f}' for r in ratios)})")


if __name__ == "__main__":
    main()
