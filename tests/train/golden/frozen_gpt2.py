"""Makes frozen_gpt2.json: runs of Hugging Face's GPT-2 at toy size of which a part trains, by PyTorch with requires_grad
off for the rest. Five steps of AdamW each, computed in fp64; norms are those before clipping. The engine makes the same runs in
tests/train/frozen/golden_test.cpp.

usage: frozen_gpt2.py > frozen_gpt2.json
Made with torch 2.15.0 and transformers 5.24.0, on the CPU.
"""
import fnmatch
import json
import math

import torch
import transformers

WIDTH, LENGTH, VOCABULARY, BATCH, STEPS, RATE, EPS, DECAY, CLIP = 32, 16, 29, 12, 5, 0.001, 1e-4, 0.1, 1.0
CASES = {
    "one_layer": {"train_only": ["transformer.h.1.*"], "freeze": []},
    "first_layer": {"train_only": ["transformer.h.0.*"], "freeze": ["*.h.0.ln_?.*"]},
    "biases": {"train_only": ["*.bias"], "freeze": []},
    "no_tables": {"train_only": [], "freeze": ["transformer.w?e.weight"]},
    "tied_table": {"train_only": ["transformer.wte.weight"], "freeze": []},
    "norms": {"train_only": ["*.ln_*"], "freeze": ["*.ln_2.bias"]},
}


def first_value(name, shape):
    if name.endswith("bias"):
        return torch.zeros(shape)
    if "ln_" in name:
        return torch.ones(shape)
    seed = sum(name.encode())
    return torch.tensor([0.0003 * thousandths(seed, i) for i in range(math.prod(shape))]).reshape(shape)


def thousandths(seed, index):
    """From -1000 to 1000, as if drawn."""
    h = (index * 2654435761 + seed * 40503) % 2**32
    h = (h ^ (h >> 15)) * 2246822519 % 2**32
    return (h ^ (h >> 13)) % 2001 - 1000


def batch_of(step):
    samples = [[(sample * 31 + t * t * 7) % VOCABULARY for t in range(LENGTH + 1)]
               for sample in range(step * BATCH, (step + 1) * BATCH)]
    return torch.tensor(samples)


def fits(patterns, name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def run(train_only, freeze):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=LENGTH, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=None, eos_token_id=None, attn_implementation="eager")).double()
    trained = []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(first_value(name, parameter.shape))
            parameter.requires_grad_((not train_only or fits(train_only, name)) and not fits(freeze, name))
            if parameter.requires_grad:
                trained.append(parameter)
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=EPS, weight_decay=DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        batch = batch_of(step)
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP).item())
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return {"train_only": train_only, "freeze": freeze, "trained": sum(one.numel() for one in trained),
            "losses": losses, "norms": norms}


if __name__ == "__main__":
    torch.manual_seed(1)
    runs = [{"name": name, **run(**choice)} for name, choice in CASES.items()]
    print("[\n " + ",\n ".join(json.dumps(one) for one in runs) + "\n]")
