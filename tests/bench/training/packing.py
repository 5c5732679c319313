"""Training on packed examples beside the same examples padded: examples a second of both, by turns, a process for each, with random
weights and tokens.

usage: packing.py BIN_DIR [--rounds N] [--length T] [--examples N]

Printed is the median of the rounds' ratios of examples per second, what it would be if a token cost the same everywhere (all tokens of
padded samples over those of packed ones), and the share of that which is reached. Lengths are log-normal.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

import figures

BATCH, STEPS = 4, 12


def run(folder, scratch, name, config):
    path = scratch / f"{name}.json"
    path.write_text(json.dumps(config))
    done = subprocess.run([folder / "dslaunch", path, "--num-ranks", "1", "--resume", "never", "--run-dir", scratch / name],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    lines = [json.loads(line) for line in (scratch / name / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(line["tokens_per_s"] for line in lines[-(STEPS - 2):]), done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--examples", type=int, default=2000)
    args = parser.parse_args()
    draw = random.Random(1)
    lengths = [min(args.length, max(2, int(draw.lognormvariate(4.6, 0.8)))) for _ in range(args.examples)]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        with (scratch / "examples.jsonl").open("w") as out:
            for length in lengths:
                print(json.dumps({"input_ids": [draw.randrange(8000) for _ in range(length)]}), file=out)

        def config(packing):
            return {"model": {"family": "llama", "num_hidden_layers": 6, "num_attention_heads": 8, "hidden_size": 512,
                              "intermediate_size": 1408, "max_position_embeddings": args.length, "vocab_size": 8000},
                    "data": {"train": ["examples.jsonl"], "format": "tokenized", "packing": packing,
                             "sequence_length": args.length},
                    "train": {"steps": STEPS, "save_at_end": False, "log_every": 1}, "train_batch_size": BATCH,
                    "optimizer": {"type": "AdamW"}}

        # Samples that an epoch has, from what a run says of packing.
        said = run(args.folder, scratch, "packed", config(True))[1]
        samples = int(said.split("examples are packed into ")[1].split()[0])
        examples = {True: args.examples / (samples * args.length), False: 1 / args.length}  # of a token, padding's too

        def rate_of(packing):
            return run(args.folder, scratch, "packed" if packing else "padded", config(packing))[0] * examples[packing]

        ratios = figures.ratios_of(args.rounds, rate_of, True, False, "examples/s")
    ideal = args.examples * args.length / sum(lengths)
    print(f"fill {sum(lengths) / (samples * args.length):.4f}, packed over padded {figures.told(ratios)}, tokens {ideal:.3f}, "
          f"reached {statistics.median(ratios) / ideal:.3f}")


if __name__ == "__main__":
    main()
