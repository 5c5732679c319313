"""Training speed of models with experts beside transformers' fastest way to compute them, in turns, fp32.

usage: experts_vs_transformers.py BIN_DIR --python PYTHON [--models moe-8,moe-64] [--rounds N] [--batch N] [--length N] [--threads N]

PYTHON has torch and transformers (5.24 knows three ways). Each way makes some steps first, and the best goes on. Printed is
the median of the rounds' ratios, and the rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

import figures

PEER = pathlib.Path(__file__).parent.parent / "peers/transformers_experts.py"
WAYS = ("eager", "batched_mm", "grouped_mm")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--models", default="moe-8,moe-64")
    for name, value in (("rounds", 5), ("batch", 2), ("length", 256), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    words = ["--batch", str(args.batch), "--length", str(args.length), "--threads", str(args.threads)]

    def of_transformers(model, way):
        done = subprocess.run([args.python, PEER, model, way, *words], capture_output=True, text=True)
        if done.returncode:  # batched_mm takes a copy of an expert for each token, which memory may not have
            return 0
        return statistics.median(json.loads(done.stdout)["tokens_per_s"])

    for model in args.models.split(","):
        first = {way: of_transformers(model, way) for way in WAYS}
        best = max(first, key=first.get)
        if not first[best]:
            raise SystemExit(f"{args.python} {PEER} {model} {best} fails")
        print(f"{model}: " + ", ".join(f"{way} {rate:.0f}" for way, rate in first.items()) + " tokens/s (0: it failed)", flush=True)

        def rate_of(which):
            if which == "transformers":
                return of_transformers(model, best)
            return statistics.median(figures.of_train_bench(args.bin_dir, ["--model", model, *words])["tokens_per_s"])

        ratios = figures.ratios_of(args.rounds, rate_of, "dslaunch", "transformers", "tokens/s")
        print(f"{model}, dslaunch over {best}: {figures.told(ratios)}")


if __name__ == "__main__":
    main()
