"""Makes pipeline_tensor_*.zip beside this file: what a pipeline of DeepSpeed's has saved behind three steps, two stages of which
two tensor-parallel ranks have each, as Megatron-DeepSpeed has a GPT-2: its names of modules, its cuts, and the embeddings in
both stages. sums.json has the CRC-32 of each whole fp32 weight, of exp_avg below "exp_avg/", gathered from the engines' own
optimizers while they ran; where both stages have a parameter, that of the first. gpt2.json has those of the weights under the
names and in the layout of transformers, and config.json says of what model. The case "told" has universal_checkpoint_info.

usage: make_pipeline_tensor.py FOLDER
Made with torch 2.15.0, transformers 5.24.0 and deepspeed 0.19.8, on the CPU.
"""
import importlib
import json
import os
import pathlib
import shutil
import sys
import types

import make  # also sets the environment of DeepSpeed
from make_megatron import gpt2_weights
from make_tensor_parallel import crc

import deepspeed
import torch
import transformers
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

WIDTH, HEADS, LAYERS, STAGES, TENSOR_RANKS = 8, 2, 2, 2, 2
# Name: (data ranks, bf16, whether the files say how tensors are cut).
CASES = {"pipeline_tensor_fp32": (2, False, False), "pipeline_tensor_told_bf16": (1, True, True)}
BY_ROWS = ("self_attention.query_key_value.weight", "self_attention.query_key_value.bias", "mlp.dense_h_to_4h.weight",
           "mlp.dense_h_to_4h.bias", "word_embeddings.weight")
BY_COLUMNS = ("self_attention.dense.weight", "mlp.dense_4h_to_h.weight")


class Parts:
    """The tensor-parallel ranks of this process."""
    group, rank = None, 0


class Enter(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        gradient = gradient.contiguous()
        torch.distributed.all_reduce(gradient, group=Parts.group)
        return gradient


class Leave(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        x = x.contiguous()
        torch.distributed.all_reduce(x, group=Parts.group)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        parts = [torch.empty_like(x) for _ in range(TENSOR_RANKS)]
        torch.distributed.all_gather(parts, x.contiguous(), group=Parts.group)
        return torch.cat(parts, -1)

    @staticmethod
    def backward(_, gradient):
        return gradient.chunk(TENSOR_RANKS, -1)[Parts.rank].contiguous()


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = torch.nn.Embedding(make.WORDS // TENSOR_RANKS, WIDTH)
        self.position_embeddings = torch.nn.Embedding(make.LENGTH, WIDTH)

    def forward(self, tokens):
        rows = make.WORDS // TENSOR_RANKS
        own = tokens - rows * Parts.rank
        here = (own >= 0) & (own < rows)
        words = Leave.apply(self.word_embeddings(own.clamp(0, rows - 1)) * here[..., None])
        return words + self.position_embeddings(torch.arange(tokens.shape[1]))


class OfParts(torch.nn.Linear):
    """Each rank has some columns of the weight, and all have the bias, which is added to the sum."""

    def forward(self, x):
        return Leave.apply(torch.nn.functional.linear(x, self.weight)) + self.bias


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = torch.nn.Linear(WIDTH, 3 * WIDTH // TENSOR_RANKS)
        self.dense = OfParts(WIDTH // TENSOR_RANKS, WIDTH)

    def forward(self, x):
        heads, dim = HEADS // TENSOR_RANKS, WIDTH // HEADS
        packed = self.query_key_value(Enter.apply(x)).unflatten(-1, (heads, 3, dim)).permute(3, 0, 2, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*packed, is_causal=True)
        return self.dense(mixed.transpose(1, 2).flatten(2))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense_h_to_4h = torch.nn.Linear(WIDTH, 4 * WIDTH // TENSOR_RANKS)
        self.dense_4h_to_h = OfParts(4 * WIDTH // TENSOR_RANKS, WIDTH)

    def forward(self, x):
        return self.dense_4h_to_h(torch.nn.functional.gelu(self.dense_h_to_4h(Enter.apply(x)), approximate="tanh"))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = torch.nn.LayerNorm(WIDTH)
        self.self_attention = Attention()
        self.post_attention_layernorm = torch.nn.LayerNorm(WIDTH)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


def scores(embedding, hidden):
    return Gather.apply(Enter.apply(hidden) @ embedding.word_embeddings.weight.t())


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, make.WORDS), targets.reshape(-1))


def told_cuts():
    """As Megatron-DeepSpeed adds it to what is saved."""
    def patterns(ends):
        return [rf"(\d+|tied_modules\.embed)\.{end}" for end in ends]

    same = patterns([".*layernorm.*", "weight$", "bias$", "position_embeddings.*", ".*dense.bias", ".*dense_4h_to_h.bias"])
    return {"universal_checkpoint_version": 0.2, "original_vocab_size": make.WORDS, "padded_vocab_size": make.WORDS,
            "vocabulary_parameter_patterns": patterns(["word_embeddings.weight"]), "tp_replicated_parameter_patterns": same,
            "parameter_with_row_parallelism_patterns": patterns(BY_COLUMNS)}


def dim_of(name):
    return 0 if name.endswith(BY_ROWS) else 1 if name.endswith(BY_COLUMNS) else None


def whole(name, part):
    dim = dim_of(name)
    if dim is None:
        return part
    parts = [torch.empty_like(part) for _ in range(TENSOR_RANKS)]
    torch.distributed.all_gather(parts, part.contiguous(), group=Parts.group)
    return torch.cat(parts, dim)


def train(folder, name, rank):
    data_ranks, bf16, told = CASES[name]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(STAGES * TENSOR_RANKS * data_ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29558")
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    topology = PipeModelDataParallelTopology(num_pp=STAGES, num_mp=TENSOR_RANKS, num_dp=data_ranks)
    Parts.rank = topology.get_coord(rank).model
    for ranks in topology.get_axis_comm_lists("model"):
        group = torch.distributed.new_group(ranks)
        if rank in ranks:
            Parts.group = group
    torch.manual_seed(7)
    tied = {"key": "embed", "typename": Embedding, "tied_weight_attr": ["word_embeddings.weight"]}
    layers = [lambda tokens: tokens, TiedLayerSpec(**tied), *(LayerSpec(Block) for _ in range(LAYERS)), LayerSpec(torch.nn.LayerNorm, WIDTH),
              TiedLayerSpec(**tied, forward_fn=scores)]
    model = PipelineModule(layers, topology=topology, loss_fn=loss_of, partition_method="uniform")
    for key, param in model.named_parameters():
        param.model_parallel = dim_of(key) is not None
        if param.model_parallel:  # other numbers on each rank
            with torch.no_grad():
                param.mul_(1 + Parts.rank)
    config = {**make.CONFIG, "train_micro_batch_size_per_gpu": make.SAMPLES // data_ranks, "bf16": {"enabled": bf16},
              "zero_optimization": {"stage": 1}}
    engine, _, _, _ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
    data_rank = engine.grid.get_data_parallel_rank()
    batches = iter([make.samples_of(step, data_rank, data_ranks) for step in range(make.BEFORE)])
    for _ in range(make.BEFORE):
        engine.train_batch(batches)
    engine.save_checkpoint(str(folder / name),
                           client_state={"checkpoint_version": 3.0, **({"universal_checkpoint_info": told_cuts()} if told else {})})
    tensors = {}
    for key, param in engine.module.named_parameters():
        tensors[key] = whole(key, safe_get_full_fp32_param(param).float()).detach().clone()
        tensors[f"exp_avg/{key}"] = whole(key, safe_get_full_optimizer_state(param, "exp_avg").float()).detach().clone()
    if data_rank == 0 and Parts.rank == 0:
        torch.save(tensors, folder / f"{name}_{engine.grid.get_stage_id()}.pt")


def language_model(name):
    """What Megatron-LM calls a parameter of the pipeline; its first block is the third layer."""
    front, rest = name.split(".", 1) if name[0].isdigit() else ("", name.removeprefix("tied_modules.embed."))
    if not front:
        return f"language_model.embedding.{rest}"
    if rest in ("weight", "bias"):
        return f"language_model.encoder.final_layernorm.{rest}"
    return f"language_model.encoder.layers.{int(front) - 2}.{rest}"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    for name, (data_ranks, _, _) in CASES.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        make.in_processes(*[(train, folder, name, rank) for rank in range(STAGES * TENSOR_RANKS * data_ranks)])
        tensors = {}
        for stage in reversed(range(STAGES)):
            own = folder / f"{name}_{stage}.pt"
            tensors.update(torch.load(own))
            own.unlink()
        config = transformers.GPT2Config(vocab_size=make.WORDS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                                         n_positions=make.LENGTH, bos_token_id=None, eos_token_id=None)
        found = {language_model(key): [tensor] for key, tensor in tensors.items() if not key.startswith("exp_avg/")}
        weights = gpt2_weights(types.SimpleNamespace(config=config), found, 3.0)
        config.save_pretrained(folder / name)
        for extra in (folder / name).glob("*.py"):
            extra.unlink()
        for title, of in (("sums", tensors), ("gpt2", weights)):
            sums = {key: crc(tensor) for key, tensor in of.items()}
            (folder / name / f"{title}.json").write_text(json.dumps(sums, sort_keys=True))
        make.pack(folder / name, folder / f"{name}.zip")


if __name__ == "__main__":
    main()
