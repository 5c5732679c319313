"""Loads universal checkpoints that `dslaunch convert --to universal` makes of the folders beside this file with DeepSpeed
itself, makes five more steps at each stage of ZeRO, and compares the losses with those that DeepSpeed made when it went
on from its own files (losses.json). Also tries torch.load with weights_only on each file.

usage: load_universal.py DSLAUNCH
Tried with torch 2.15.0, transformers 5.24.0 and deepspeed 0.19.8, on the CPU.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import make
import deepspeed
import torch
from deepspeed.accelerator import get_accelerator

HERE = pathlib.Path(__file__).resolve().parent
# The folder, how it is trained further (stage, bf16; a folder of fp16 in fp16), and how far losses may lie apart.
CASES = [("zero2_fp32", 1, False, 1e-6), ("zero2_fp32", 2, False, 1e-6), ("zero3_fp32", 3, False, 1e-6),
         ("zero3_fp32", 2, False, 1e-6), ("zero1_bf16", 1, True, 1e-6), ("zero2_bf16", 2, True, 1e-6),
         ("zero3_bf16", 3, True, 1e-6), ("zero2_fp16", 2, False, 1e-6), ("zero2_frozen", 2, False, 1e-6),
         ("zero3_frozen", 3, False, 1e-6)]


def go_on(name, folder, stage, half, ranks, into):
    """One rank of DeepSpeed, from the universal checkpoint in the folder."""
    make.importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    rank = torch.distributed.get_rank()
    get_accelerator().is_fp16_supported = lambda: True  # as in make.py
    model = make.make_model(make.CASES[name][3])
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    with torch.no_grad():  # nothing is left of the run that made the checkpoint, but for what it did not train
        for weight in trained:
            weight.fill_(0.5)
    config = {**make.CONFIG, "train_micro_batch_size_per_gpu": make.SAMPLES // ranks, "bf16": {"enabled": half},
              "checkpoint": {"load_universal": True},
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    if name.endswith("fp16"):  # the scale where it stands, which a note of the conversion says
        config["fp16"] = {**make.FP16, "initial_scale_power": 16}
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=trained, config=config)
    engine.load_checkpoint(str(folder))
    assert engine.global_steps == make.BEFORE, engine.global_steps
    assert engine.global_samples == make.BEFORE * make.SAMPLES, engine.global_samples
    losses = []
    for step in range(make.BEFORE, make.BEFORE + make.AFTER):
        inputs, targets = make.samples_of(step, rank, ranks)
        logits = engine(inputs, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, make.WORDS), targets.reshape(-1))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().double()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / ranks)
    if rank == 0:
        into.write_text(json.dumps(losses))


def run_rank(name, rank, folder, stage, half, ranks, into):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29556")
    go_on(name, folder, stage, half, ranks, into)


def main():
    dslaunch = pathlib.Path(sys.argv[1]).resolve()
    wanted = json.loads((HERE / "losses.json").read_text())
    worst = 0
    for name, stage, half, limit in CASES:
        with tempfile.TemporaryDirectory() as place:
            folder, into = pathlib.Path(place) / "universal", pathlib.Path(place) / "losses.json"
            subprocess.run([dslaunch, "convert", HERE / name, folder, "--to", "universal", "--config",
                            HERE / ("zero2_frozen" if name.endswith("frozen") else "zero2_fp32")], check=True)
            for path in folder.rglob("*.pt"):
                torch.load(path, weights_only=True)
            ranks = make.CASES[name][2]
            make.in_processes(*[(run_rank, name, rank, folder, stage, half, ranks, into) for rank in range(ranks)])
            losses = json.loads(into.read_text())
        apart = max(abs(a - b) / abs(b) for a, b in zip(losses, wanted[name][make.BEFORE:]))
        print(f"{name}, stage {stage}, {ranks} ranks: losses within {apart:.1e} of DeepSpeed going on by itself", flush=True)
        worst = max(worst, apart / limit)
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
