"""Makes tensor_*.zip beside this file: what DeepSpeed's own tensor parallelism (AutoTP) saves behind three steps of a small
Llama, cut over two ranks. Each archive has in weights.json and moments.json the CRC-32 of each whole fp32 weight and of
exp_avg, gathered from the engine's own optimizer over its ranks while it ran, and in losses.json the losses of these steps
and of five more. tensor_untold.zip is tensor_zero1_bf16 without universal_checkpoint_info, which files of a script's own
tensor parallelism (mpu) do not have.

usage: make_tensor_parallel.py FOLDER [NAME ...]
Made with torch 2.15.0, transformers 5.24.0 and deepspeed 0.19.8, on the CPU.
"""
import importlib
import json
import os
import pathlib
import shutil
import sys
import zlib

import make  # also sets the environment of DeepSpeed

import deepspeed
import deepspeed.utils.groups
import torch
import transformers
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

TENSOR_RANKS = 2
# Name: (data ranks, stage of ZeRO, bf16).
CASES = {"tensor_zero0_fp32": (1, 0, False), "tensor_zero1_bf16": (1, 1, True), "tensor_zero2_fp32": (2, 2, False),
         "tensor_zero3_fp32": (1, 3, False)}


def make_model():
    torch.manual_seed(7)
    config = transformers.LlamaConfig(vocab_size=make.WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
                                      bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.3,
                                      attn_implementation="eager")
    return transformers.AutoModelForCausalLM.from_config(config)


def joined(name, part, whole):
    """The whole tensor of the parts of all ranks, by the shape that it has without tensor parallelism."""
    if list(part.shape) == list(whole):
        return part
    parts = [torch.empty_like(part) for _ in range(TENSOR_RANKS)]
    torch.distributed.all_gather(parts, part.contiguous(), group=deepspeed.utils.groups.get_tensor_model_parallel_group())
    dim = next(i for i, (a, b) in enumerate(zip(part.shape, whole)) if a != b)
    return torch.cat(parts, dim)


def train(folder, name, rank):
    data_ranks, stage, bf16 = CASES[name]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(TENSOR_RANKS * data_ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29557")
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    model = make_model()
    shapes = {key: list(value.shape) for key, value in model.named_parameters()}
    config = {**make.CONFIG, "train_micro_batch_size_per_gpu": make.SAMPLES // data_ranks, "bf16": {"enabled": bf16},
              "zero_optimization": {"stage": stage}, "tensor_parallel": {"autotp_size": TENSOR_RANKS}}
    del config["train_batch_size"]  # it would be compared with that of all ranks, as if each had samples of its own
    if rank == 0:
        model.config.save_pretrained(folder / name)
    engine, _, _, _ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
    data_rank = rank // TENSOR_RANKS
    losses = []
    for step in range(make.BEFORE + make.AFTER):
        if step == make.BEFORE:
            save(engine, folder / name, stage, shapes)
        inputs, targets = make.samples_of(step, data_rank, data_ranks)
        logits = engine(inputs, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, make.WORDS), targets.reshape(-1))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().double()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / (TENSOR_RANKS * data_ranks))
    if rank == 0:
        (folder / name / "losses.json").write_text(json.dumps({name: losses}))


def save(engine, place, stage, shapes):
    engine.save_checkpoint(str(place))
    weights, moments = {}, {}
    for key, param in engine.module.named_parameters():
        if stage == 0:
            part, moment = param.detach(), engine.optimizer.state[param]["exp_avg"]
        else:
            part, moment = safe_get_full_fp32_param(param), safe_get_full_optimizer_state(param, "exp_avg")
        weights[key] = crc(joined(key, part.float(), shapes[key]))
        moments[key] = crc(joined(key, moment.float(), shapes[key]))
    if torch.distributed.get_rank() == 0:
        (place / "weights.json").write_text(json.dumps(weights, sort_keys=True))
        (place / "moments.json").write_text(json.dumps(moments, sort_keys=True))


def crc(tensor):
    return zlib.crc32(tensor.detach().contiguous().numpy().tobytes())


def make_untold(folder):
    shutil.copytree(folder / "tensor_zero1_bf16", folder / "tensor_untold")
    for path in (folder / "tensor_untold").rglob("*_model_states.pt"):
        states = torch.load(path, weights_only=False)
        del states["universal_checkpoint_info"]
        torch.save(states, path)
    make.pack(folder / "tensor_untold", folder / "tensor_untold.zip")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or CASES:
        shutil.rmtree(folder / name, ignore_errors=True)
        make.in_processes(*[(train, folder, name, rank) for rank in range(TENSOR_RANKS * CASES[name][0])])
        for extra in [*(folder / name).glob("*.py"), folder / name / "generation_config.json"]:
            extra.unlink(missing_ok=True)
        if name == "tensor_zero1_bf16":
            make_untold(folder)
        make.pack(folder / name, folder / f"{name}.zip")


if __name__ == "__main__":
    main()
