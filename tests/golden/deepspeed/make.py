"""Makes the DeepSpeed checkpoints beside this file with DeepSpeed itself: a small model of transformers makes three
steps, saves, and makes five more, of which losses.json has the losses. `consolidated.safetensors` of each folder is what
DeepSpeed's zero_to_fp32 makes of it. universal.zip is what ds_to_universal makes of zero2_frozen; packed, for it has a
file for each state of each parameter. zero2_fp32 is laid as DeepSpeed lays it, the others are the folders of their tag.

Another version of DeepSpeed packs each checkpoint into an archive that has its name, with CRC-32 of the consolidated weights.

usage: make.py FOLDER [NAME ...]
Made with torch 2.15.0, transformers 5.24.0 and deepspeed 0.19.8, on the CPU; v0.14.5_* and v0.19.6_* with those versions,
for which LOCAL_SIZE=2 (it asks numactl else) and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 (its files name classes) were set.
"""
import argparse
import importlib
import json
import multiprocessing
import os
import pathlib
import shutil
import sys
import zipfile
import zlib

os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")

import deepspeed
import torch
import transformers
from deepspeed.accelerator import get_accelerator
from deepspeed.checkpoint import ds_to_universal
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from safetensors.torch import load_file, save_file

WORDS, LENGTH, SAMPLES, BEFORE, AFTER, SCALE_POWER = 64, 8, 4, 3, 5, 17
CONFIG = {
    "train_batch_size": SAMPLES,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
                                              "torch_adam": True}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 6,
                                                 "warmup_type": "linear"}},
    "zero_allow_untested_optimizer": True,
}
# Name: (stage, dtype, ranks, kind of model).
CASES = {
    "zero0_narrow": (0, "fp32", 1, "gpt2_narrow"),
    "zero1_narrow": (1, "fp32", 1, "gpt2_narrow"),
    "zero2_fp32": (2, "fp32", 2, "gpt2"),
    "zero3_fp32": (3, "fp32", 2, "gpt2"),
    "zero1_bf16": (1, "bf16", 1, "gpt2"),
    "zero2_bf16": (2, "bf16", 2, "gpt2"),
    "zero3_bf16": (3, "bf16", 2, "gpt2"),
    "zero2_fp16": (2, "fp16", 2, "gpt2"),
    "zero2_frozen": (2, "fp32", 2, "llama"),
    "zero3_frozen": (3, "fp32", 2, "llama"),
}
# Gradients overflow in the first step. The scale doubles behind the last one: DeepSpeed divides the gradients of such a
# step by the new scale, and its losses behind it are others than those of whoever divides by that which they have.
FP16 = {"enabled": True, "initial_scale_power": SCALE_POWER, "loss_scale_window": 6, "hysteresis": 1}


def token(place):
    return (place * place * 7 + place * 3 + place // 5) % WORDS


def samples_of(step, rank, ranks):
    """Inputs and targets of this rank: samples follow each other in the row of tokens."""
    count = SAMPLES // ranks
    first = [(step * SAMPLES + rank * count + i) * LENGTH for i in range(count)]
    rows = torch.tensor([[token(f + i) for i in range(LENGTH + 1)] for f in first])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def make_model(kind):
    torch.manual_seed(7)
    common = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
              "attn_implementation": "eager"}
    if kind.startswith("gpt2"):
        config = transformers.GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=16, n_inner=24 if kind == "gpt2_narrow" else 32,
                                         resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3)
    else:
        config = transformers.LlamaConfig(**common, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                                          num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16,
                                          initializer_range=0.3)
    model = transformers.AutoModelForCausalLM.from_config(config)
    if kind == "llama":
        model.model.embed_tokens.weight.requires_grad_(False)
        model.model.norm.weight.requires_grad_(False)
    return model


def train(folder, name):
    """One rank of DeepSpeed."""
    stage, dtype, ranks, kind = CASES[name]
    # Collectives in shared memory would need a compiler.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    # The accelerator of CPUs has fp16 only where their instructions have; their emulation has the same numbers.
    get_accelerator().is_fp16_supported = lambda: True
    deepspeed.init_distributed(dist_backend="gloo")
    rank = torch.distributed.get_rank()
    model = make_model(kind)
    if rank == 0:
        model.config.save_pretrained(folder / name)
    config = {**CONFIG, "train_micro_batch_size_per_gpu": SAMPLES // ranks, "bf16": {"enabled": dtype == "bf16"},
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    if dtype == "fp16":
        config["fp16"] = FP16
    weights = [p for p in model.parameters() if p.requires_grad]
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=weights, config=config)
    losses = []
    for step in range(BEFORE + AFTER):
        if step == BEFORE:
            engine.save_checkpoint(folder / name, client_state={"consumed": step * SAMPLES})
        inputs, targets = samples_of(step, rank, ranks)
        logits = engine(inputs, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().double()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / ranks)
    if rank == 0:
        (folder / name / "losses.json").write_text(json.dumps(losses))


def run_rank(folder, name, rank):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(CASES[name][2]), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29555")
    train(folder, name)


def in_processes(*calls):
    """Each call in a fork of this process, which has imported everything already."""
    processes = [multiprocessing.get_context("fork").Process(target=call, args=arguments) for call, *arguments in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit(f"{calls[0][1:]}: a process failed")


def run_ranks(folder, name):
    shutil.rmtree(folder / name, ignore_errors=True)
    in_processes(*[(run_rank, folder, name, rank) for rank in range(CASES[name][2])])


def consolidate(folder, name):
    if CASES[name][0] == 0:  # zero_to_fp32 is for stages above
        return
    whole = get_fp32_state_dict_from_zero_checkpoint(str(folder / name))
    distinct = {key: torch.as_tensor(value).clone().contiguous() for key, value in whole.items()}
    save_file(distinct, str(folder / name / "consolidated.safetensors"))


def make_universal(folder):
    target = folder / "universal"
    shutil.rmtree(target, ignore_errors=True)
    source = folder / "zero2_frozen"
    arguments = argparse.Namespace(input_folder=str(source), output_folder=str(target / f"global_step{BEFORE}"),
                                   num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True,
                                   inject_missing_state=True)
    in_processes((ds_to_universal.main, arguments))
    pack(target, folder / "universal.zip")


def pack(folder, into):
    """Moves a folder into an archive."""
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), (1980, 1, 1, 0, 0, 0)), path.read_bytes(),
                                 zipfile.ZIP_DEFLATED)
    shutil.rmtree(folder)


def pack_version(folder, name, losses):
    place = folder / name
    whole = load_file(place / "consolidated.safetensors")
    sums = {key: zlib.crc32(value.numpy().tobytes()) for key, value in whole.items()}
    (place / "consolidated.safetensors").unlink()
    (place / "sums.json").write_text(json.dumps(sums))
    (place / "losses.json").write_text(json.dumps({name: losses}))
    pack(place, folder / f"v{deepspeed.__version__}_{name}.zip")


def tidy(folder, name):
    """Leaves what tests read."""
    unwanted = ["zero_to_fp32.py", "zero_to_torch.py", "generation_config.json", "losses.json"]
    if name not in ("zero2_fp32", "zero2_frozen"):
        unwanted.append("config.json")
    for extra in unwanted:
        (folder / name / extra).unlink(missing_ok=True)
    if name == "zero2_fp32":
        return
    (folder / name / "latest").unlink()
    tag = folder / name / f"global_step{BEFORE}"
    for path in tag.iterdir():
        path.rename(folder / name / path.name)
    tag.rmdir()


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    names = sys.argv[2:] or list(CASES)
    path = folder / "losses.json"
    losses = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        run_ranks(folder, name)
        consolidate(folder, name)
        losses[name] = json.loads((folder / name / "losses.json").read_text())
        tidy(folder, name)
        if deepspeed.__version__ != "0.19.8":
            pack_version(folder, name, losses[name])
    path.write_text(json.dumps(losses, indent=1) + "\n")
    if "zero2_frozen" in names:
        make_universal(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
