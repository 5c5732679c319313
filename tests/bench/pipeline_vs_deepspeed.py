"""Pipeline parallelism on CPUs against DeepSpeed's pipeline engine: 1F1B, stages of one thread, the same GPT-2 shape cut between
the same blocks; one after the other in each round.

usage: pipeline_vs_deepspeed.py BIN_DIR [--python PYTHON] [--rounds N] [--stages N] [--micro-batches N] [--micro-batch N]
       [--length N] [--layers N] [--width N] [--heads N] [--vocabulary N]

PYTHON has torch and deepspeed (peers/deepspeed_pipeline.py). Printed are the medians of tokens per second and of the rounds'
ratios. Goal: 1.3 of DeepSpeed's.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile

import own_rate

HERE = pathlib.Path(__file__).parent
SHAPE = ("layers", "width", "heads", "vocabulary", "micro_batches", "micro_batch", "length", "steps")


def train_json(args):
    return {"model": {"family": "gpt2", "vocab_size": args.vocabulary, "n_layer": args.layers, "n_embd": args.width,
                      "n_head": args.heads, "n_positions": args.length, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
            "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": args.length},
            "train": {"steps": args.steps + own_rate.NOT_TIMED}, "train_batch_size": args.micro_batches * args.micro_batch,
            "train_micro_batch_size_per_gpu": args.micro_batch, "gradient_clipping": 1.0,
            "pipeline": {"stages": args.stages, "partition": "type:Block", "schedule": args.schedule},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}}}


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


# Without torchrun, which gives each rank a session of its own: where the kernel shares cores out by sessions, that is twice our
# share of a loaded machine.
def theirs(args):
    shape = [word for name in SHAPE for word in (f"--{name.replace('_', '-')}", str(getattr(args, name)))]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(args.stages), "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([args.python, HERE / "peers/deepspeed_pipeline.py", *shape], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)})
             for rank in range(args.stages)]
    texts = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise SystemExit("a rank of DeepSpeed's failed; run peers/deepspeed_pipeline.py by torchrun to see why")
    line = next(line for line in texts[0].splitlines() if line.startswith('{"tokens'))
    return statistics.median(json.loads(line)["tokens_per_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    for name, value in (("rounds", 5), ("stages", 2), ("steps", 5), ("layers", 6), ("width", 384), ("heads", 6),
                        ("vocabulary", 8192), ("micro-batches", 8), ("micro-batch", 1), ("length", 128)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--schedule", default="1f1b", help="ours; theirs is 1F1B")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        own_rate.write_job(folder, train_json(args))
        rounds = []
        for turn in range(args.rounds):
            rounds.append((own_rate.tokens_per_s(args.bin_dir, folder, args.stages), theirs(args)))
            print("  round {}: {:.1f} tok/s, DeepSpeed {:.1f}".format(turn + 1, *rounds[-1]), flush=True)
    middle = statistics.median
    print(f"{args.stages} stages, {args.micro_batches} micro-batches of {args.micro_batch} x {args.length}, {args.layers} layers "
          f"of {args.width}: {middle(a for a, _ in rounds):.1f} tok/s, ratio {middle(a / b for a, b in rounds):.2f} to "
          f"DeepSpeed's {middle(b for _, b in rounds):.1f}")


main()
