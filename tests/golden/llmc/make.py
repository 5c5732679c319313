"""Makes checkpoints of llm.c beside this file: model_00000004.bin in fp32 and model_00000003.bin in bf16 are written by its own
train_gpt2.py, and so is the order of elements in the states of the second, of two ranks with ZeRO, whose headers and cuts
are those of save_state() in its train_gpt2.cu, which needs a GPU. The .safetensors files have what transformers' GPT-2 has of
it, whose logits are those of llm.c's: fp32, exp_avg and exp_avg_sq.

usage: make.py TRAIN_GPT2_PY
Made with train_gpt2.py of llm.c f1e2ace65149, torch 2.15.0 and transformers 5.24.0, on the CPU.
"""
import importlib.util
import io
import pathlib
import struct
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, HEADS, WIDTH, WORDS, PLACES, RANKS, STEP = 2, 2, 16, 61, 8, 2, 3
MATRICES = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def of_transformers(tensors):
    """Linear layers of llm.c are [out, in], Conv1D of transformers is [in, out]."""
    return {name: value.t().contiguous() if name.endswith(MATRICES) else value.contiguous() for name, value in tensors.items()}


def flat(llmc, tensors):
    """All elements in llm.c's order, as its own writer puts them, and the sizes of its tensors, layer by layer."""
    padded = {**tensors, "transformer.wte.weight": llmc.pad_vocab(tensors["transformer.wte.weight"])}
    sizes = []

    class Counting(io.BytesIO):
        def write(self, data):
            sizes.append(len(data) // 4)
            return super().write(data)

    out = Counting()
    llmc.write_tensors(padded, LAYERS, out, "float32")
    return numpy.frombuffer(out.getvalue(), numpy.float32), sizes


def write_states(llmc, step, kinds):
    rows = [flat(llmc, tensors) for tensors in kinds]
    for rank in range(RANKS):
        header = bytearray(1024)
        struct.pack_into("<6i", header, 0, 20240527, 1, RANKS, rank, 1, 0)
        struct.pack_into("<i", header, 40, step)
        with open(HERE / f"state_{step:08}_{rank:05}.bin", "wb") as out:
            out.write(header)
            for elements, sizes in rows:
                begin = 0
                for size in sizes:
                    share = size // RANKS
                    out.write(elements[begin + rank * share:begin + (rank + 1) * share].tobytes())
                    begin += size


def main():
    spec = importlib.util.spec_from_file_location("train_gpt2", sys.argv[1])
    llmc = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(llmc)
    # Its own pads 50257 tokens alone, to a multiple of 128.
    llmc.pad_vocab = lambda tensor, multiple=64, value=0: torch.nn.functional.pad(
        tensor, (0, 0, 0, -tensor.shape[0] % multiple), value=value)
    torch.manual_seed(11)
    model = llmc.GPT(llmc.GPTConfig(block_size=PLACES, vocab_size=WORDS, n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    llmc.write_model(model, HERE / f"model_{STEP + 1:08}.bin", "float32")
    llmc.write_model(model, HERE / f"model_{STEP:08}.bin", "bfloat16")
    moments = [{name: torch.randn_like(value) for name, value in weights.items()} for _ in range(2)]
    moments[1] = {name: value * value for name, value in moments[1].items()}
    write_states(llmc, STEP, [*moments, weights])
    for name, tensors in (("fp32", weights), ("exp_avg", moments[0]), ("exp_avg_sq", moments[1])):
        save_file(of_transformers(tensors), HERE / f"{name}.safetensors")
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_positions=PLACES, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=None, eos_token_id=None, attn_implementation="eager"))
    theirs.load_state_dict({**of_transformers(weights), "lm_head.weight": weights["transformer.wte.weight"]})
    tokens = torch.arange(PLACES)[None] * 7 % WORDS
    with torch.no_grad():
        apart = (theirs(tokens).logits - model(tokens, tokens)[0]).abs().max().item()
    assert apart < 1e-4, apart
    print(f"logits of transformers are within {apart:.1e} of llm.c's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
