"""Makes megatron_*.zip beside this file: what DeepSpeed has saved behind three steps of a module that has the parameters of
Megatron-DeepSpeed's, under its names, cut over two tensor-parallel ranks (an mpu of this script's) as Megatron-LM cuts them.
Weights are those of a model of transformers, and each is trained to become 0, whichever rank has it. sums.json has the CRC-32
of each fp32 weight behind that, under the names and in the layout of transformers.

usage: make_megatron.py FOLDER
Made with torch 2.15.0, transformers 5.24.0 and deepspeed 0.19.8, on the CPU.
"""
import importlib
import json
import os
import pathlib
import shutil
import sys

import make  # also sets the environment of DeepSpeed
from make_tensor_parallel import crc

import deepspeed
import torch
import transformers

RANKS, PADDED = 2, 80
COMMON = {"vocab_size": make.WORDS, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LAYER = "language_model.encoder.layers."
# Name: checkpoint_version.
CASES = {"megatron_gpt2": 3.0, "megatron_gpt2_version0": 0, "megatron_llama": 3.0}
INFO = {
    "universal_checkpoint_version": 0.2,
    "original_vocab_size": make.WORDS,
    "vocabulary_parameter_patterns": [r"language_model.embedding.word_embeddings.weight", r"language_model.output_layer.weight"],
    "tp_replicated_parameter_patterns": [r".*layernorm.*"],
    "parameter_with_row_parallelism_patterns": [r".*self_attention.dense.weight", r".*dense_4h_to_h.weight"],
    "parameter_with_2_sub_params_cat_dim_0": [r".*dense_h_to_4h.weight"],
}


def make_model(name):
    torch.manual_seed(7)
    if name.startswith("megatron_gpt2"):
        config = transformers.GPT2Config(**COMMON, n_embd=8, n_layer=2, n_head=4, n_positions=16, n_inner=16)
    else:
        config = transformers.LlamaConfig(**COMMON, hidden_size=16, intermediate_size=12, num_hidden_layers=1,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # zeros and ones tell nothing
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))
    return model


def padded(rows):
    return torch.cat([rows, torch.randn(PADDED - len(rows), rows.shape[1])])


def parts(tensor, dim):
    return list(torch.chunk(tensor, RANKS, dim))


def joined_heads(query, key, value, groups, version):
    """Each rank's query_key_value of whole ones, [groups x heads of a group x width of a head, ...]."""
    cut = [torch.chunk(tensor, RANKS) for tensor in (query, key, value)]
    if version < 1:
        return [torch.cat(own) for own in zip(*cut)]
    of_groups = [tensor.reshape(groups, -1, *tensor.shape[1:]) for tensor in (query, key, value)]
    whole = torch.cat(of_groups, 1)
    return parts(whole.reshape(-1, *query.shape[1:]), 0)


def apart(ranks, groups, heads, version):
    """The inverse: whole queries, keys and values of what the ranks have."""
    if version < 1:
        cut = [torch.chunk(own, 3) for own in ranks]
        return [torch.cat(column) for column in zip(*cut)]
    whole = torch.cat(ranks)
    of_groups = whole.reshape(groups, heads // groups + 2, -1, *whole.shape[1:])
    pieces = [of_groups[:, :-2], of_groups[:, -2:-1], of_groups[:, -1:]]
    return [piece.reshape(-1, *whole.shape[1:]) for piece in pieces]


def gpt2_parts(model, version):
    """Each parameter of Megatron's by its name: the parts of both ranks."""
    state, found = model.state_dict(), {}
    found["language_model.embedding.word_embeddings.weight"] = parts(padded(state["transformer.wte.weight"]), 0)
    found["language_model.embedding.position_embeddings.weight"] = [state["transformer.wpe.weight"]] * RANKS
    for layer in range(model.config.n_layer):
        ours, theirs = f"transformer.h.{layer}.", f"{LAYER}{layer}."
        for norm, name in (("ln_1", "input_layernorm"), ("ln_2", "post_attention_layernorm")):
            for kind in ("weight", "bias"):
                found[f"{theirs}{name}.{kind}"] = [state[f"{ours}{norm}.{kind}"]] * RANKS
        for kind in ("weight", "bias"):
            whole = state[f"{ours}attn.c_attn.{kind}"].t() if kind == "weight" else state[f"{ours}attn.c_attn.{kind}"]
            found[f"{theirs}self_attention.query_key_value.{kind}"] = joined_heads(*torch.chunk(whole, 3),
                                                                                   model.config.n_head, version)
        for name, other, dim in (("attn.c_proj", "self_attention.dense", 1), ("mlp.c_fc", "mlp.dense_h_to_4h", 0),
                                 ("mlp.c_proj", "mlp.dense_4h_to_h", 1)):
            found[f"{theirs}{other}.weight"] = parts(state[f"{ours}{name}.weight"].t(), dim)
            bias = state[f"{ours}{name}.bias"]
            found[f"{theirs}{other}.bias"] = parts(bias, 0) if dim == 0 else [bias] * RANKS
    for kind in ("weight", "bias"):
        found[f"language_model.encoder.final_layernorm.{kind}"] = [state[f"transformer.ln_f.{kind}"]] * RANKS
    return found


def gpt2_weights(model, found, version):
    """The inverse: weights as transformers has them."""
    weights = {"transformer.wte.weight": torch.cat(found["language_model.embedding.word_embeddings.weight"])[:make.WORDS],
               "transformer.wpe.weight": found["language_model.embedding.position_embeddings.weight"][0]}
    for layer in range(model.config.n_layer):
        ours, theirs = f"transformer.h.{layer}.", f"{LAYER}{layer}."
        for kind in ("weight", "bias"):
            for norm, name in (("ln_1", "input_layernorm"), ("ln_2", "post_attention_layernorm")):
                weights[f"{ours}{norm}.{kind}"] = found[f"{theirs}{name}.{kind}"][0]
            heads = apart(found[f"{theirs}self_attention.query_key_value.{kind}"], model.config.n_head, model.config.n_head,
                          version)
            weights[f"{ours}attn.c_attn.{kind}"] = torch.cat(heads).t() if kind == "weight" else torch.cat(heads)
        for name, other, dim in (("attn.c_proj", "self_attention.dense", 1), ("mlp.c_fc", "mlp.dense_h_to_4h", 0),
                                 ("mlp.c_proj", "mlp.dense_4h_to_h", 1)):
            weights[f"{ours}{name}.weight"] = torch.cat(found[f"{theirs}{other}.weight"], dim).t()
            bias = found[f"{theirs}{other}.bias"]
            weights[f"{ours}{name}.bias"] = torch.cat(bias) if dim == 0 else bias[0]
    for kind in ("weight", "bias"):
        weights[f"transformer.ln_f.{kind}"] = found[f"language_model.encoder.final_layernorm.{kind}"][0]
    return weights


LLAMA_WHOLE = {"model.norm.weight": "language_model.encoder.final_layernorm.weight",
               "model.layers.0.input_layernorm.weight": f"{LAYER}0.input_layernorm.weight",
               "model.layers.0.post_attention_layernorm.weight": f"{LAYER}0.post_attention_layernorm.weight"}
LLAMA_ROWS = {"model.embed_tokens.weight": "language_model.embedding.word_embeddings.weight",
              "lm_head.weight": "language_model.output_layer.weight"}
LLAMA_COLUMNS = {"model.layers.0.self_attn.o_proj.weight": f"{LAYER}0.self_attention.dense.weight",
                 "model.layers.0.mlp.down_proj.weight": f"{LAYER}0.mlp.dense_4h_to_h.weight"}
HEADS = [f"model.layers.0.self_attn.{kind}_proj.weight" for kind in "qkv"]
GATED = [f"model.layers.0.mlp.{kind}_proj.weight" for kind in ("gate", "up")]


def llama_parts(model, version):
    state = model.state_dict()
    found = {theirs: [state[ours]] * RANKS for ours, theirs in LLAMA_WHOLE.items()}
    found.update({theirs: parts(padded(state[ours]), 0) for ours, theirs in LLAMA_ROWS.items()})
    found.update({theirs: parts(state[ours], 1) for ours, theirs in LLAMA_COLUMNS.items()})
    found[f"{LAYER}0.self_attention.query_key_value.weight"] = joined_heads(*[state[name] for name in HEADS],
                                                                            model.config.num_key_value_heads, version)
    halves = [torch.chunk(state[name], RANKS) for name in GATED]
    found[f"{LAYER}0.mlp.dense_h_to_4h.weight"] = [torch.cat(own) for own in zip(*halves)]
    return found


def llama_weights(model, found, version):
    weights = {ours: found[theirs][0] for ours, theirs in LLAMA_WHOLE.items()}
    weights.update({ours: torch.cat(found[theirs])[:make.WORDS] for ours, theirs in LLAMA_ROWS.items()})
    weights.update({ours: torch.cat(found[theirs], 1) for ours, theirs in LLAMA_COLUMNS.items()})
    heads = apart(found[f"{LAYER}0.self_attention.query_key_value.weight"], model.config.num_key_value_heads,
                  model.config.num_attention_heads, version)
    weights.update(zip(HEADS, heads))
    halves = [torch.chunk(own, 2) for own in found[f"{LAYER}0.mlp.dense_h_to_4h.weight"]]
    weights.update({name: torch.cat(column) for name, column in zip(GATED, zip(*halves))})
    return weights


class Megatron(torch.nn.Module):
    """The parameters alone, in modules that give them their names; the loss draws each to 0."""

    def __init__(self, tensors):
        super().__init__()
        for name, tensor in tensors.items():
            *path, last = name.split(".")
            place = self
            for step in path:
                if step not in place._modules:
                    place.add_module(step, torch.nn.Module())
                place = place._modules[step]
            place.register_parameter(last, torch.nn.Parameter(tensor.clone().contiguous()))

    def forward(self):
        return sum((weight * weight).sum() for weight in self.parameters())


class Ranks:
    """An mpu: both ranks are of one tensor-parallel group."""

    def __init__(self):
        self.alone = [torch.distributed.new_group([rank]) for rank in range(RANKS)][torch.distributed.get_rank()]

    def get_model_parallel_rank(self): return torch.distributed.get_rank()
    def get_model_parallel_world_size(self): return RANKS
    def get_model_parallel_group(self): return torch.distributed.group.WORLD
    def get_tensor_model_parallel_rank(self): return torch.distributed.get_rank()
    def get_tensor_model_parallel_world_size(self): return RANKS
    def get_tensor_model_parallel_group(self): return torch.distributed.group.WORLD
    def get_data_parallel_rank(self): return 0
    def get_data_parallel_world_size(self): return 1
    def get_data_parallel_group(self): return self.alone


def train(folder, name, rank):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29558")
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    whole = make_model(name)
    to_parts, to_weights = (gpt2_parts, gpt2_weights) if name.startswith("megatron_gpt2") else (llama_parts, llama_weights)
    tensors = {key: value[rank] for key, value in to_parts(whole, CASES[name]).items()}
    config = {**make.CONFIG, "train_batch_size": 1, "gradient_clipping": 0.0, "zero_optimization": {"stage": 1}}
    module = Megatron(tensors)
    engine, _, _, _ = deepspeed.initialize(model=module, config=config, model_parameters=list(module.parameters()), mpu=Ranks())
    for _ in range(make.BEFORE):
        engine.backward(engine())
        engine.step()
    told = {"universal_checkpoint_info": INFO} if name == "megatron_llama" else {}
    engine.save_checkpoint(str(folder / name), client_state={"checkpoint_version": CASES[name], **told})
    everything = [None] * RANKS
    torch.distributed.all_gather_object(everything, {key: value.detach() for key, value in module.named_parameters()})
    if rank == 0:
        found = {key: [own[key] for own in everything] for key in tensors}
        weights = to_weights(whole, found, CASES[name])
        (folder / name / "sums.json").write_text(json.dumps({k: crc(v) for k, v in weights.items()}, sort_keys=True))
        whole.config.save_pretrained(folder / name)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    for name in CASES:
        shutil.rmtree(folder / name, ignore_errors=True)
        make.in_processes(*[(train, folder, name, rank) for rank in range(RANKS)])
        for extra in (folder / name).glob("*.py"):
            extra.unlink()
        make.pack(folder / name, folder / f"{name}.zip")


if __name__ == "__main__":
    main()
