"""Makes fp16_gpt2.json: a run of a tiny GPT-2 in fp16 by PyTorch on the CPU, with the loss scaler of DeepSpeed's ZeRO
optimizers written down from its documents. Weights, activations and gradients are fp16; attention's inside, softmax and
loss are fp32; so are master weights and the state of Adam. tests/train/precision/fp16_golden_test.cpp makes the same run.

usage: fp16_gpt2.py > fp16_gpt2.json        (needs torch)
"""
import json
import math

import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, LENGTH, VOCABULARY = 2, 2, 32, 16, 29
BATCH, STEPS, RATE, DECAY, CLIP = 12, 14, 0.002, 0.1, 1.0
SCALE, WINDOW, HYSTERESIS, MINIMUM = 2.0**18, 3, 2, 1.0


def first_value(name, shape):
    if "ln_" in name and name.endswith("weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    seed = sum(name.encode()) % 97
    numel = math.prod(shape)
    return torch.tensor([0.06 * math.sin(0.9 * i + seed) for i in range(numel)], dtype=torch.float32).reshape(shape)


def shapes():
    yield "transformer.wte.weight", (VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", (LENGTH, WIDTH)
    for layer in range(LAYERS):
        h = f"transformer.h.{layer}"
        for norm in ("ln_1", "ln_2"):
            yield f"{h}.{norm}.weight", (WIDTH,)
            yield f"{h}.{norm}.bias", (WIDTH,)
        for linear, inner, outer in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                     ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            yield f"{h}.{linear}.weight", (inner, outer)
            yield f"{h}.{linear}.bias", (outer,)
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "transformer.ln_f.bias", (WIDTH,)


class Head(torch.autograd.Function):
    """Logits in fp32, whose gradients are rounded to fp16 before the products that follow."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.float() @ weight.float().T

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        half = gradient.half().float()
        return (half @ weight.float()).half(), (half.T @ x.float()).half()


def loss_of(w, tokens, targets):
    def norm(x, name):
        return F.layer_norm(x.float(), (WIDTH,), w[name + ".weight"].float(), w[name + ".bias"].float(), 1e-5).half()

    def linear(x, name):
        return (x.float() @ w[name + ".weight"].float() + w[name + ".bias"].float()).half()

    x = (w["transformer.wte.weight"][tokens].float() + w["transformer.wpe.weight"].float()).half()
    for layer in range(LAYERS):
        h = f"transformer.h.{layer}"
        packed = linear(norm(x, h + ".ln_1"), h + ".attn.c_attn").float()
        q, k, v = (part.reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in packed.split(WIDTH, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH).half()
        x = x + linear(out, h + ".attn.c_proj")
        inner = F.gelu(linear(norm(x, h + ".ln_2"), h + ".mlp.c_fc").float(), approximate="tanh").half()
        x = x + linear(inner, h + ".mlp.c_proj")
    logits = Head.apply(norm(x, "transformer.ln_f").reshape(-1, WIDTH), w["transformer.wte.weight"])
    return F.cross_entropy(logits, targets.reshape(-1))


class Scaler:
    def __init__(self):
        self.scale, self.iteration, self.last_overflow, self.credit = SCALE, 0, -1, HYSTERESIS

    def update(self, overflow):
        if overflow:
            if self.credit == 1:
                assert self.scale > MINIMUM
                self.scale = max(self.scale / 2, MINIMUM)
            else:
                self.credit -= 1
            self.last_overflow = self.iteration
        else:
            clean = self.iteration - self.last_overflow - 1
            if clean > 0 and clean % WINDOW == 0:
                self.credit, self.scale = HYSTERESIS, self.scale * 2
        self.iteration += 1


def rate_of(update):
    return RATE * min(1.0, math.log(max(update - 1, 1)) / math.log(4))


def batch_of(step):
    sample = step * BATCH + torch.arange(BATCH)[:, None]
    t = torch.arange(LENGTH + 1)[None, :]
    ids = (sample * 31 + t * t * 7) % VOCABULARY
    return ids[:, :-1], ids[:, 1:]


def main():
    master = {name: first_value(name, shape) for name, shape in shapes()}
    moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in master.items()}
    scaler, updates, lines = Scaler(), 0, []
    for step in range(STEPS):
        w = {name: value.half().requires_grad_() for name, value in master.items()}
        loss = loss_of(w, *batch_of(step))
        scale, rate = scaler.scale, rate_of(updates + 1)
        (loss * scale).backward()
        gradients = {name: value.grad.float() / scale for name, value in w.items()}
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients.values()))
        finite = math.isfinite(norm)
        scaler.update(not finite)
        lines.append({"loss": round(float(loss.detach()), 6), "grad_norm": round(norm, 6) if finite else None, "lr": round(rate, 9),
                      "loss_scale": scale})
        if not finite:
            continue
        updates += 1
        factor = min(1.0, CLIP / (norm + 1e-6))
        for name, value in master.items():
            m, v = moments[name]
            g = gradients[name] * factor
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            value.mul_(1 - rate * DECAY)
            value.sub_(rate * (m / (1 - 0.9**updates)) / ((v / (1 - 0.999**updates)).sqrt() + 1e-8))
    print("{\"steps\": [\n" + ",\n".join(" " + json.dumps(line) for line in lines) + "\n]}")


main()
