"""ZeRO-Offload on CPUs against DeepSpeed's: stage 2 with optimizer state and update on the host, ranks of one thread, on the
GPT-2 124M shape; one after the other in each round.

usage: offload_vs_deepspeed.py BIN_DIR [--python PYTHON] [--rounds N] [--ranks N] [--dtype fp32|bf16] [--batch N] [--length N]

PYTHON has torch and deepspeed (peers/deepspeed_offload.py). Printed are the medians of tokens per second and of the rounds'
ratios, and ours without offload beside them. Goal: 1.5 of DeepSpeed's.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import own_rate

HERE = pathlib.Path(__file__).parent


def train_json(args):
    return {"model": {"family": "gpt2", "vocab_size": 50257, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
            "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": args.length},
            "train": {"steps": args.steps + own_rate.NOT_TIMED}, "train_batch_size": args.batch, "gradient_clipping": 1.0,
            "bf16": {"enabled": args.dtype == "bf16"},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}},
            "zero_optimization": {"stage": 2}}


def theirs(args):
    out = subprocess.run([args.python, "-m", "torch.distributed.run", "--nproc-per-node", str(args.ranks),
                          HERE / "peers/deepspeed_offload.py", "--dtype", args.dtype, "--batch", str(args.batch),
                          "--length", str(args.length), "--steps", str(args.steps)],
                         check=True, capture_output=True, text=True).stdout
    line = next(line for line in out.splitlines() if line.startswith("{"))
    return statistics.median(json.loads(line)["tokens_per_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        own_rate.write_job(folder, train_json(args))
        rounds = []
        for turn in range(args.rounds):
            ours = [own_rate.tokens_per_s(args.bin_dir, folder, args.ranks, f"zero_optimization.offload_optimizer.device={place}")
                    for place in ("cpu", "none")]
            rounds.append((*ours, theirs(args)))
            print("  round {}: {:.1f} tok/s offloaded, {:.1f} not; DeepSpeed {:.1f}".format(turn + 1, *rounds[-1]), flush=True)
    middle = statistics.median
    print(f"B={args.batch} T={args.length} {args.dtype}, {args.ranks} ranks, stage 2: {middle(a for a, _, _ in rounds):.1f} tok/s "
          f"offloaded, ratio {middle(a / c for a, _, c in rounds):.2f} to DeepSpeed's {middle(c for *_, c in rounds):.1f}, "
          f"{middle(a / b for a, b, _ in rounds):.2f} to ours without")


main()
