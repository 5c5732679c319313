"""What stages cost and gain in generation: tokens per second of all texts together, by one process with one thread and with
two, and by two ranks with a thread each, one after the other in each round.

usage: generate_stages.py BIN_DIR [--rounds N] [--prompts N] [--tokens N]

A GPT-2 of 124M parameters, one step old, fp32. Every text is checked to be the same. Printed are medians of the rounds' ratios,
of ranks over one thread and over two.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

CONFIG = {"model": {"family": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 256, "vocab_size": 50257},
          "data": {"train": ["text"], "tokenizer": "byte", "sequence_length": 32}, "train": {"steps": 1}, "train_batch_size": 1,
          "optimizer": {"type": "AdamW"}}


def texts(args, folder, words):
    """The texts, and the seconds from the first token on, the prompts' included and loading not."""
    prompts = [word for n in range(args.prompts) for word in ("--prompt", f"prompt number {n}")]
    begun = time.monotonic()
    done = subprocess.run([str(args.bin_dir / "dslaunch"), "generate", "run", *prompts, "--max-tokens", str(args.tokens), "--json",
                           "--tokenizer", "byte", *words], cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stderr)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()], seconds


def rate(args, folder, words):
    """Without what loading takes: the time of `tokens` more than a few."""
    few = argparse.Namespace(**{**vars(args), "tokens": 2})
    _, loading = texts(few, folder, words)
    ids, seconds = texts(args, folder, words)
    return ids, args.prompts * (args.tokens - 2) / (seconds - loading)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=66)
    args = parser.parse_args()
    args.bin_dir = args.bin_dir.resolve()
    over_one, over_two = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_text("All the world's a stage. " * 40)
        (folder / "train.json").write_text(json.dumps(CONFIG))
        subprocess.run([str(args.bin_dir / "dslaunch"), "train.json", "--num-ranks", "1", "--run-dir", "run"], cwd=folder, check=True,
                       capture_output=True)
        for turn in range(args.rounds):
            same, one = rate(args, folder, ["--num-threads", "1"])
            also, two = rate(args, folder, ["--num-threads", "2"])
            staged, ranks = rate(args, folder, ["--num-ranks", "2", "--num-threads", "1"])
            if not same == also == staged:
                raise SystemExit("other texts")
            over_one.append(ranks / one)
            over_two.append(ranks / two)
            print(f"  round {turn + 1}: {one:.1f}, {two:.1f} and by ranks {ranks:.1f} tok/s: {over_one[-1]:.2f}, {over_two[-1]:.2f}", flush=True)
    print(f"{args.prompts} prompts: two stages of a thread over one thread {statistics.median(over_one):.2f}, over two threads "
          f"{statistics.median(over_two):.2f}")


if __name__ == "__main__":
    main()
