#!/usr/bin/env python3
"""Writes tests/golden/optimizers.txt: what torch.optim, and DeepSpeed's and mup's definitions written
out here in fp32, make of five parameters in 50 steps. Run by hand, with PyTorch:

    python3 tests/optim/golden_weights.py > tests/golden/optimizers.txt

tests/zero/optimizers_test.cpp has the same parameters, gradients and settings under the same names.
Every third weight is written."""

import math

import torch

STEPS = 50
LR = 0.01
PARAMS = [("wte.weight", (6, 8)), ("h.0.attn.weight", (8, 12)), ("h.0.attn.bias", (12,)),
          ("h.0.ln_1.weight", (8,)), ("h.1.mlp.weight", (16, 8))]
BASE_SHAPES = [(6, 4), (4, 6), (6,), (4,), (4, 4)]  # of muP's base model


def start(p, shape):
    values = [0.5 * math.sin(0.7 * i + 1.3 * p) + 0.1 for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).float().reshape(shape)


def gradient(p, shape, step):
    values = [math.cos(0.37 * i + 0.11 * p + 1.7 * step) * (0.1 + 0.05 * ((i + step) % 7))
              for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).float().reshape(shape)


def by_torch(make):
    def run(weights):
        params = [torch.nn.Parameter(w) for w in weights]
        optimizer = make(params)
        for step in range(1, STEPS + 1):
            for p, param in enumerate(params):
                param.grad = gradient(p, param.shape, step)
            optimizer.step()
        return [param.detach() for param in params]
    return run


def by_element(rule):
    """rule(p, w, g, state, step) changes w and the tensors in `state` in place."""
    def run(weights):
        states = [{} for _ in weights]
        for step in range(1, STEPS + 1):
            for p, w in enumerate(weights):
                rule(p, w, gradient(p, w.shape, step), states[p], step)
        return weights
    return run


def moments(state, w, g, beta1, beta2):
    m = state.setdefault("m", torch.zeros_like(w))
    v = state.setdefault("v", torch.zeros_like(w))
    m.mul_(beta1).add_(g, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    return m, v


def adam_without_correction(p, w, g, state, step):
    m, v = moments(state, w, g, 0.9, 0.999)
    w.add_(m / (v.sqrt() + 1e-8), alpha=-LR)


def lion(p, w, g, state, step):  # DeepSpeedCPULion
    m = state.setdefault("m", torch.zeros_like(w))
    w.mul_(1 - LR * 0.1).add_(torch.sign(m * 0.9 + g * 0.1), alpha=-LR)
    m.mul_(0.99).add_(g, alpha=0.01)


def adagrad_of_deepspeed(p, w, g, state, step):  # DeepSpeedCPUAdagrad
    s = state.setdefault("s", torch.zeros_like(w))
    s.add_((g + 0.1 * w) ** 2)
    w.sub_(LR * (g / (s.sqrt() + 1e-10)))


def lamb(eps=1e-8, inside=False, least=0.01, most=10.0, decay=0.1, correct=True):  # FusedLamb
    def rule(p, w, g, state, step):
        m, v = moments(state, w, g, 0.9, 0.999)
        size = LR * math.sqrt(1 - 0.999**step) / (1 - 0.9**step) if correct else LR
        update = m / ((v + eps).sqrt() if inside else v.sqrt() + eps) + decay * w
        ratio = 1.0
        w_norm, u_norm = w.double().norm().item(), update.double().norm().item()
        if w_norm != 0 and u_norm != 0:
            ratio = max(min(w_norm / u_norm, most), least)
        w.sub_(size * ratio * update)
    return by_element(rule)


def orthogonal(x):
    """Newton-Schulz of Muon, in fp32 where DeepSpeed and torch have bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


def muon(decay, muon_lr=LR, adam_lr=LR):
    def rule(p, w, g, state, step):
        if p in (1, 4):
            m = state.setdefault("m", torch.zeros_like(w))
            m.lerp_(g, 1 - 0.95)
            update = orthogonal(g.lerp(m, 0.95)) * max(1, w.size(0) / w.size(1)) ** 0.5
            w.mul_(1 - muon_lr * decay).add_(update, alpha=-muon_lr)
        else:
            m, v = moments(state, w, g, 0.9, 0.95)
            update = (m / (1 - 0.9**step)) / ((v / (1 - 0.95**step)).sqrt() + 1e-10)
            w.mul_(1 - adam_lr * decay).add_(update, alpha=-adam_lr)
    return by_element(rule)


def mup(adam):
    """The groups of mup.MuAdam and mup.MuSGD for axes that differ from the base model's."""
    groups = []
    for (_, shape), base in zip(PARAMS, BASE_SHAPES):
        wide = [n / b for n, b in zip(shape, base) if n != b]
        scale = 1.0
        if adam and len(wide) == 2:
            scale = 1 / wide[-1]
        if not adam and wide:
            scale = wide[-1] if len(wide) == 1 else wide[0] / wide[1]
        groups.append({"lr": LR * scale, "weight_decay": 0.1 / scale})
    return groups


def grouped(make, groups):
    return by_torch(lambda params: make([{"params": [p], **g} for p, g in zip(params, groups)]))


optim = torch.optim
CASES = {
    "adamw": by_torch(lambda p: optim.AdamW(p, lr=LR, weight_decay=0.1)),
    "adam": by_torch(lambda p: optim.Adam(p, lr=LR, weight_decay=0.1)),
    "adam without correction": by_element(adam_without_correction),
    "adamw amsgrad": by_torch(lambda p: optim.AdamW(p, lr=LR, weight_decay=0.1, amsgrad=True)),
    "lion": by_element(lion),
    "adagrad": by_element(adagrad_of_deepspeed),
    "adagrad of torch": by_torch(lambda p: optim.Adagrad(
        p, lr=LR, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2)),
    "sgd": by_torch(lambda p: optim.SGD(p, lr=LR, weight_decay=0.1)),
    "sgd with momentum": by_torch(lambda p: optim.SGD(
        p, lr=LR, momentum=0.9, dampening=0.3, weight_decay=0.1)),
    "sgd nesterov": by_torch(lambda p: optim.SGD(p, lr=LR, momentum=0.9, nesterov=True)),
    "sgd upwards": by_torch(lambda p: optim.SGD(
        p, lr=LR, momentum=0.9, weight_decay=0.1, maximize=True)),
    "rmsprop": by_torch(lambda p: optim.RMSprop(p, lr=LR, weight_decay=0.1)),
    "rmsprop with momentum": by_torch(lambda p: optim.RMSprop(p, lr=LR, alpha=0.95, momentum=0.9)),
    "rmsprop centered": by_torch(lambda p: optim.RMSprop(p, lr=LR, eps=1e-4, centered=True)),
    "rmsprop centered with momentum": by_torch(lambda p: optim.RMSprop(
        p, lr=LR, eps=1e-4, centered=True, momentum=0.5, maximize=True)),
    "groups": grouped(lambda g: optim.AdamW(g, lr=LR), [
        {"lr": LR, "weight_decay": 0.1}, {"lr": LR, "weight_decay": 0.1},
        {"lr": LR, "weight_decay": 0.0}, {"lr": LR, "weight_decay": 0.0},
        {"lr": 0.1 * LR, "weight_decay": 0.3}]),
    "muadam": grouped(lambda g: optim.Adam(g, lr=LR), mup(True)),
    "muadamw": grouped(lambda g: optim.AdamW(g, lr=LR), mup(True)),
    "musgd": grouped(lambda g: optim.SGD(g, lr=LR, momentum=0.9), mup(False)),
    "lamb": lamb(),
    "lamb with eps inside": lamb(eps=1e-3, inside=True, correct=False),
    "lamb clamped": lamb(least=0.5, most=0.8, decay=0.0),
    "muon": muon(0.1),
    "muon with rates": muon(0.0, muon_lr=0.02, adam_lr=0.003),
}


def main():
    torch.set_num_threads(1)
    for name, run in CASES.items():
        with torch.no_grad():
            weights = [start(p, shape) for p, (_, shape) in enumerate(PARAMS)]
        if run.__qualname__.startswith("by_element"):
            with torch.no_grad():
                weights = run(weights)
        else:
            weights = run(weights)
        flat = torch.cat([w.reshape(-1) for w in weights])[::3]
        print(name)
        print("----")
        for first in range(0, len(flat), 9):
            print(" ".join(f"{x:.9g}" for x in flat[first:first + 9].tolist()))
        print()


if __name__ == "__main__":
    main()
