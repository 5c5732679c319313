"""Makes the teachers beside this file and steps.json: runs of small models of ../families that learn from others, by PyTorch.

wide, narrow: folders of teachers that have 44 and 30 tokens where the models have 40; wide has 3 blocks and is 24 wide.
steps.json: of each case, its settings, five steps of AdamW in fp64: losses, norms of gradients, divergences (the mean of
temperature^2 * KL(teacher || model)) and hidden (the mean of the squared distances of the matched blocks, summed over them).

loss = alpha * cross entropy + beta * temperature^2 * KL(softmax(t / temperature) || softmax(z / temperature)) + weight * the
sum over matched blocks of the mean over the width of (state - teacher's state)^2, a mean over the tokens that have targets.
Tokens that the teacher does not have get no probability from it; those that the model does not have are left out before the
teacher's softmax. A state is what a block gives, residual stream and all.

usage: make_distillation.py
Made with torch 2.15.0, transformers 5.24.0 and safetensors 0.8.0, on the CPU.
"""
import json
import pathlib

import torch
import transformers

LENGTH, BATCH, STEPS, RATE, EPS, END = 16, 4, 5, 1e-3, 1e-4, 6
HERE = pathlib.Path(__file__).parent
FAMILIES = HERE.parent / "families"
CASES = {
    "soft": dict(model="qwen2", teacher="gpt_neox", alpha=0.5, beta=0.5, temperature=2.0),
    "hidden": dict(model="gpt2_scaled", teacher="qwen3", alpha=0.0, beta=1.0, temperature=1.0, layers={"1": 1, "3": 2},
                   layers_weight=0.3),
    "wide": dict(model="qwen2", teacher="wide", alpha=1.0, beta=0.7, temperature=4.0, uneven=True),
    "narrow": dict(model="qwen2", teacher="narrow", alpha=1.0, beta=1.0, temperature=2.0),
    "capped": dict(model="gpt_neox", teacher="gemma2", alpha=0.3, beta=2.0, temperature=2.0, uneven=True),
    "capped_too": dict(model="gemma2", teacher="granite", alpha=0.3, beta=2.0, temperature=0.5),
    "masked": dict(model="distilbert", teacher="bert", alpha=0.5, beta=0.5, temperature=2.0, layers={"2": 1}, uneven=True),
    "staged": dict(model="qwen2", teacher="gpt_neox", alpha=0.5, beta=0.5, temperature=2.0, layers={"1": 2}, until_step=3),
}


def folder_of(name):
    return HERE / name if (HERE / name).is_dir() else FAMILIES / name


def load(name):
    kind = transformers.AutoConfig.from_pretrained(folder_of(name)).architectures[0]
    model = getattr(transformers, kind).from_pretrained(folder_of(name), attn_implementation="eager", dtype=torch.float32)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return model.double().eval()


def blocks_of(model):
    body = model.base_model
    for path in ("h", "layers", "encoder.layer", "transformer.layer"):
        try:
            return body.get_submodule(path)
        except AttributeError:
            pass
    raise ValueError(type(model))


def answers(model, tokens, segments):
    """Logits, and what each block gives, by its number from 1."""
    states, hooks = {}, []
    for number, block in enumerate(blocks_of(model), 1):
        def keep(_, __, out, number=number):
            states[number] = out[0] if isinstance(out, tuple) else out
        hooks.append(block.register_forward_hook(keep))
    more = {"token_type_ids": segments} if model.config.model_type == "bert" else {}
    logits = model(tokens, **more).logits
    for hook in hooks:
        hook.remove()
    return logits, states


def batch_of(step):
    samples = range(step * BATCH, (step + 1) * BATCH)
    ids = torch.tensor([[(sample * 31 + t * t * 7) % 29 for t in range(LENGTH + 1)] for sample in samples])
    return ids, torch.tensor([[(sample + t // 3) % 2 for t in range(LENGTH)] for sample in samples])


def run(case):
    model, teacher = load(case["model"]), load(case["teacher"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=EPS, weight_decay=0)
    temperature, pairs = case["temperature"], case.get("layers", {})
    out = {"losses": [], "norms": [], "divergences": [], "hidden": []}
    for step in range(STEPS):
        ids, segments = batch_of(step)
        tokens, targets = ids[:, :-1], ids[:, 1:]
        counts = tokens != END if case.get("uneven") else torch.ones_like(tokens, dtype=torch.bool)
        logits, states = answers(model, tokens, segments)
        with torch.no_grad():
            taught, shown = answers(teacher, tokens, segments)
        entropy = torch.nn.functional.cross_entropy(logits[counts], targets[counts])
        size = logits.shape[-1]
        taught = taught[..., :size]
        if taught.shape[-1] < size:
            nothing = torch.full((*taught.shape[:-1], size - taught.shape[-1]), -torch.inf, dtype=taught.dtype)
            taught = torch.cat([taught, nothing], -1)
        log_p = torch.log_softmax(taught[counts] / temperature, -1)
        log_q = torch.log_softmax(logits[counts] / temperature, -1)
        difference = torch.where(log_p.isneginf(), 0.0, log_p - log_q)
        divergence = temperature**2 * (log_p.exp() * difference).sum(-1).mean()
        hidden = sum((((states[int(own)] - shown[other])[counts]) ** 2).mean(-1).mean() for own, other in pairs.items())
        loss = case["alpha"] * entropy + case["beta"] * divergence + case.get("layers_weight", 1.0) * hidden
        is_taught = step < case.get("until_step", STEPS)
        if not is_taught:
            loss = entropy
        loss.backward()
        out["losses"].append(loss.item())
        out["norms"].append(torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item())
        out["divergences"].append(divergence.item() if is_taught else None)
        out["hidden"].append(case.get("layers_weight", 1.0) * hidden.item() if is_taught and pairs else None)
        optimizer.step()
        optimizer.zero_grad()
    return out


def make_teacher(name, kind, **sizes):
    torch.manual_seed(len(name))
    config = transformers.LlamaConfig(max_position_embeddings=80, num_attention_heads=4, num_key_value_heads=2, bos_token_id=None,
                                      eos_token_id=None, initializer_range=0.3, **sizes)
    kind(config).save_pretrained(HERE / name)
    (HERE / name / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    make_teacher("wide", transformers.LlamaForCausalLM, vocab_size=44, hidden_size=24, intermediate_size=40, num_hidden_layers=3)
    make_teacher("narrow", transformers.LlamaForCausalLM, vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=2)
    cases = [json.dumps({"name": name, **case, **run(case)}) for name, case in CASES.items()]
    (HERE / "steps.json").write_text('{"cases": [\n ' + ",\n ".join(cases) + "\n]}\n")
