#!/usr/bin/env python3
"""`dslaunch profile` against DeepSpeed's flops profiler on the same models: the same modules with the same classes, and
multiply-adds of each within 1 %.

usage: flops_vs_deepspeed.py FOLDER_OF_PROGRAMS [--python PYTHON]

PYTHON has torch and deepspeed (deepspeed_flops.py); exits with 77 (skipped) where it has not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
WITHIN = 0.01
HERE = pathlib.Path(__file__).parent
GPT2 = {"family": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 128, "n_positions": 256, "vocab_size": 1000}
LLAMA = {"family": "llama", "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
         "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 256}


def check(holds, what):
    if not holds:
        sys.exit(f"flops_vs_deepspeed: {what}")


def compare(path, ours, theirs):
    check(ours["kind"] == theirs["kind"], f"{path}: {ours['kind']}, DeepSpeed {theirs['kind']}")
    rows = {name: one for name, one in ours["modules"].items()}
    check(set(rows) == set(theirs["modules"]), f"{path}: {sorted(rows)}, DeepSpeed {sorted(theirs['modules'])}")
    check(abs(ours["macs"] - theirs["macs"]) <= WITHIN * max(theirs["macs"], 1),
          f"{path}: {ours['macs']:.6g} multiply-adds, DeepSpeed {theirs['macs']:.6g}")
    return 1 + sum(compare(f"{path}.{name}", one, theirs["modules"][name]) for name, one in rows.items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    there = subprocess.run([args.python, "-c", "import torch, deepspeed"], capture_output=True, text=True)
    if there.returncode != 0:
        print(f"skipped: {args.python} has no torch and deepspeed")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as home:
        path = pathlib.Path(home, "train.json")
        for model in (GPT2, LLAMA):
            path.write_text(json.dumps({
                "model": model, "data": {"train": ["corpus.txt"], "sequence_length": 256}, "train": {"steps": 2},
                "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}))
            outputs = []
            for command in ([f"{args.binaries}/dslaunch", "profile", path, "--json"],
                            [args.python, HERE / "deepspeed_flops.py", path]):
                done = subprocess.run(command, capture_output=True, text=True, timeout=200)
                check(done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
                outputs.append(json.loads(done.stdout.strip().splitlines()[-1]))
            ours, theirs = outputs
            check(ours["model"]["params"] == theirs["params"], f"{ours['model']['params']}, {theirs['params']}")
            total, other = ours["model"]["flops"], theirs["model"]["flops"]
            check(abs(total - other) <= WITHIN * other, f"{model['family']}: {total:.6g} FLOPs, DeepSpeed {other:.6g}")
            rows = compare(model["family"], ours["model"], theirs["model"])
            print(f"{model['family']}: {rows} modules agree; {total:.6g} FLOPs, DeepSpeed {other:.6g}")


main()
