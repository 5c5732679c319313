"""Makes pipeline_*.zip beside this file: what a pipeline of DeepSpeed's has saved behind three steps, two stages of a GPT-2
whose embeddings both stages have. sums.json has the CRC-32 of each fp32 weight, of exp_avg below "exp_avg/"; where both
stages have a parameter, that of the first, as in the files of layers. (zero_to_fp32 reads no pipelines, and ds_to_universal
none of several data ranks that has tied layers.)

usage: make_pipeline.py FOLDER
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
import torch
import transformers
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

WIDTH, LAYERS = 8, 2
# Name: (data ranks, stage of ZeRO, bf16).
CASES = {"pipeline_zero1_bf16": (1, 1, True), "pipeline_zero1_fp32": (2, 1, False), "pipeline_zero0_fp32": (1, 0, False)}


class Embeddings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(make.WORDS, WIDTH)
        self.wpe = torch.nn.Embedding(WIDTH, WIDTH)

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))


class Block(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        config = transformers.GPT2Config(vocab_size=make.WORDS, n_embd=WIDTH, n_layer=LAYERS, n_head=2, n_positions=WIDTH,
                                         n_inner=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                         attn_implementation="eager")
        self.block = GPT2Block(config, layer_idx=layer)

    def forward(self, hidden):
        length = hidden.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)[None, None]
        out = self.block(hidden, attention_mask=mask)
        return out[0] if isinstance(out, tuple) else out


def scores(embeddings, hidden):
    return hidden @ embeddings.wte.weight.t()


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, make.WORDS), targets.reshape(-1))


def train(folder, name, rank):
    data_ranks, stage, bf16 = CASES[name]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(2 * data_ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29556")
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(7)
    tied = {"key": "embed", "typename": Embeddings, "tied_weight_attr": ["wte.weight"]}
    layers = [TiedLayerSpec(**tied), *(LayerSpec(Block, i) for i in range(LAYERS)), LayerSpec(torch.nn.LayerNorm, WIDTH),
              TiedLayerSpec(**tied, forward_fn=scores)]
    model = PipelineModule(layers, num_stages=2, loss_fn=loss_of, partition_method="uniform")
    config = {**make.CONFIG, "train_micro_batch_size_per_gpu": make.SAMPLES // data_ranks, "bf16": {"enabled": bf16},
              "zero_optimization": {"stage": stage}}
    engine, _, _, _ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
    data_rank = engine.grid.get_data_parallel_rank()
    batches = iter([make.samples_of(step, data_rank, data_ranks) for step in range(make.BEFORE)])
    for _ in range(make.BEFORE):
        engine.train_batch(batches)
    engine.save_checkpoint(str(folder / name))


def crc(tensor):
    return zlib.crc32(tensor.detach().contiguous().numpy().tobytes())


def sums_of_layers(tag):
    found = {}
    for path in sorted(tag.glob("layer_*")):
        layer = int(path.name.split("_")[1].split("-")[0])
        found.update({f"{layer}.{key}": crc(value) for key, value in torch.load(path, weights_only=False).items()})
    return found


def sums_of_partitions(tag, data_ranks):
    """The flat partitions of each stage behind each other, cut as param_shapes says, as zero_to_fp32 has it."""
    found = {}
    for stage in range(2):
        shapes = torch.load(tag / f"mp_rank_{stage:02}_model_states.pt", weights_only=False)["param_shapes"][0]
        ranks = [torch.load(next(tag.glob(f"*zero_pp_rank_{rank}_mp_rank_{stage:02}_optim_states.pt")),
                            weights_only=False)["optimizer_state_dict"] for rank in range(data_ranks)]
        slots = {"": [rank["single_partition_of_fp32_groups"][0] for rank in ranks],
                 "exp_avg/": [rank["base_optimizer_state"]["state"][0]["exp_avg"] for rank in ranks]}
        for front, partitions in slots.items():
            flat, at = torch.cat(partitions), 0
            for name, shape in shapes.items():
                found.setdefault(front + name, crc(flat[at:at + shape.numel()]))
                at += shape.numel()
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, (data_ranks, stage, _) in CASES.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        make.in_processes(*[(train, folder, name, rank) for rank in range(2 * data_ranks)])
        tag = folder / name / f"global_step{make.BEFORE}"
        sums = sums_of_partitions(tag, data_ranks) if stage else sums_of_layers(tag)
        for extra in (folder / name).glob("*.py"):
            extra.unlink()
        (folder / name / "sums.json").write_text(json.dumps(sums, sort_keys=True))
        make.pack(folder / name, folder / f"{name}.zip")


if __name__ == "__main__":
    main()
