"""`dslaunch lr-range-test` on five small jobs: how good the rate is that it recommends.

usage: lr_range_jobs.py BIN_DIR [--only NAME,NAME]

Each job has a text, a family, a batch and an optimizer of its own. It is trained for sixty steps at twelve rates, each
twice the one before, and at the rate that `lr-range-test` recommends where it is given nothing but the job. Compared are
the losses on held-out text, in the mean over three seeds: with one, a rate that differs in its third digit moves the loss
of some jobs by 3 %, and the best of twelve is a lucky one. The goal is a quotient of at most 1.02 beside the best of the
twelve. Ends with 1 where a job misses it.
"""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 60
SEEDS = (1, 2, 3)
RATES = 12
GOAL = 1.02
ALONE = ("--num-ranks", "1", "--num-threads", "1")


def files(pattern):
    return "".join(path.read_text() for path in sorted(ROOT.glob(pattern)))


def sums():
    numbers = random.Random(1)
    pairs = ((numbers.randrange(1000), numbers.randrange(1000)) for _ in range(12000))
    return "".join(f"{a} + {b} = {a + b}\n" for a, b in pairs)


def invented_names():
    draw = random.Random(2)
    parts = ["ka", "lo", "mi", "ren", "ta", "vos", "ul", "ne"]
    name = lambda: "".join(draw.choice(parts) for _ in range(draw.randrange(1, 4)))
    return "".join(" ".join(name() for _ in range(8)) + ".\n" for _ in range(5000))


def records():
    draw = random.Random(3)
    rows = ({"id": i, "size": draw.randrange(99), "kind": draw.choice("abc")} for i in range(8000))
    return "".join(json.dumps(row) + "\n" for row in rows)


def gpt2(layers, width):
    return {"family": "gpt2", "vocab_size": 257, "n_layer": layers, "n_head": 2, "n_embd": width, "n_positions": 64}


def llama(layers, width):
    return {"family": "llama", "vocab_size": 257, "num_hidden_layers": layers, "num_attention_heads": 2, "hidden_size": width,
            "intermediate_size": width * 5 // 2, "max_position_embeddings": 64}


# Name: text, model, optimizer, other keys, the smallest rate of the grid.
JOBS = {
    "AdamW": (lambda: files("docs/*.md"), gpt2(2, 64), {"type": "AdamW", "params": {"lr": 1e-3}},
              {"train_batch_size": 8}, 1e-4),
    "AdamW, clipped": (lambda: files("optim/*.cpp"), llama(2, 64),
                       {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}},
                       {"train_batch_size": 16, "gradient_clipping": 0.5}, 1e-4),
    "SGD": (sums, gpt2(1, 32), {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}, {"train_batch_size": 16}, 2e-3),
    "Lion": (invented_names, llama(2, 48), {"type": "Lion", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}},
             {"train_batch_size": 8}, 1e-5),
    "Muon": (records, gpt2(2, 64), {"type": "Muon", "params": {"lr": 0.02}},
             {"train_batch_size": 8, "gradient_clipping": 0}, 5e-4),
}


def write_job(folder, job):
    text, model, optimizer, more, _ = job
    words = text()
    (folder / "train.txt").write_text(words[:len(words) * 9 // 10])
    (folder / "held_out.txt").write_text(words[len(words) * 9 // 10:])
    config = {"model": model, "optimizer": optimizer, **more,
              "data": {"train": ["train.txt"], "validation": ["held_out.txt"], "tokenizer": "byte", "sequence_length": 64,
                       "order": "shuffled"},
              "train": {"steps": STEPS, "seed": 1, "save_at_end": False, "eval_every": STEPS, "eval_batches": 16}}
    (folder / "train.json").write_text(json.dumps(config))


def loss_at(program, folder, rate, name):
    """On held-out text after the last step, in the mean over the seeds; infinite where a training was lost."""
    return sum(loss_of(program, folder, rate, seed, f"{name}-{seed}") for seed in SEEDS) / len(SEEDS)


def loss_of(program, folder, rate, seed, name):
    done = subprocess.run([program, "train.json", *ALONE, "--run-dir", name, f"optimizer.params.lr={rate}",
                           f"train.seed={seed}"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        if "first_bad_number" not in (folder / name / "report.json").read_text():
            raise SystemExit(done.stderr)
        return math.inf
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [line["validation_loss"] for line in lines if "validation_loss" in line][-1]


def quotient(program, name, job):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_job(folder, job)
        done = subprocess.run([program, "lr-range-test", "train.json", *ALONE, "--json"], cwd=folder, capture_output=True,
                              text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout)
        grid = {job[4] * 2**k: loss_at(program, folder, job[4] * 2**k, f"grid{k}") for k in range(RATES)}
        best = min(grid, key=grid.get)
        loss = loss_at(program, folder, found["lr"], "recommended")
    print(f"{name:15} recommended {found['lr']:.3g}: {loss:.4f}  best of the grid {best:.3g}: {grid[best]:.4f}  "
          f"quotient {loss / grid[best]:.4f}  trials {len(found['trials'])}", flush=True)
    return loss / grid[best]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(JOBS))
    args = parser.parse_args()
    program = args.bin_dir.resolve() / "dslaunch"
    wanted = [name for name in JOBS if name in args.only]
    return int(max(quotient(program, name, JOBS[name]) for name in wanted) > GOAL)


sys.exit(main())
