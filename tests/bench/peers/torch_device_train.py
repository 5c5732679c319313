"""Training speed of PyTorch on the shapes of train_bench, on one device: plain model code that is compiled, random
weights and tokens, bf16 by autocast with fp32 weights, or with --pure everything in bf16.

Two steps, in which it compiles, are not timed. Prints one JSON object as train_bench does: the tokens per second of
every step, and what they are of a ceiling where one is given. Each step is a line of standard error, so that a run
that is cut short has told how far it came. With --by-blocks the blocks and the loss are compiled rather than the model:
equal blocks are compiled once, where the whole of a deep model takes minutes.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# layers, heads, heads of keys and values, width, inner, vocabulary; as tests/bench/model_shapes.h
GPT2 = {"gpt2-124m": (12, 12, 12, 768, 3072, 50257), "gpt2-1558m": (48, 25, 25, 1600, 6400, 50257),
        "tiny": (1, 2, 2, 32, 128, 64)}
LLAMA = {"llama-1.5b": (28, 12, 2, 1536, 8960, 151936), "llama-7b": (32, 32, 32, 4096, 11008, 32000)}
TIED = {"llama-1.5b"}


class Gpt2Block(nn.Module):
    def __init__(self, heads, width, inner):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, _):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, heads, kv_heads, width, inner):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, width // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, rotation):
        b, t, c = x.shape
        h = self.norm_1(x)
        q = rotated(self.q(h).view(b, t, self.heads, -1).transpose(1, 2), rotation)
        k = rotated(self.k(h).view(b, t, self.kv_heads, -1).transpose(1, 2), rotation)
        v = self.v(h).view(b, t, self.kv_heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotated(x, rotation):
    cosine, sine = (y.to(x.dtype) for y in rotation)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Model(nn.Module):
    def __init__(self, name, length):
        super().__init__()
        self.is_gpt2 = name in GPT2
        layers, heads, kv_heads, width, inner, vocabulary = (GPT2 | LLAMA)[name]
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if self.is_gpt2 or name in TIED:
            self.head.weight = self.embedding.weight
        if self.is_gpt2:
            self.positions = nn.Embedding(max(length, 64), width)
            self.blocks = nn.ModuleList(Gpt2Block(heads, width, inner) for _ in range(layers))
            self.norm = nn.LayerNorm(width)
        else:
            self.blocks = nn.ModuleList(LlamaBlock(heads, kv_heads, width, inner) for _ in range(layers))
            self.norm = nn.RMSNorm(width, eps=1e-6)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 1e4 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        if self.is_gpt2:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, (self.cosine, self.sine))
        return self.loss(x, targets)

    def loss(self, x, targets):
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())

    def compile_by_blocks(self):
        for block in self.blocks:
            block.compile()
        self.loss = torch.compile(self.loss)


def flops_per_token(model, name, length):
    layers, _, _, width, _, _ = (GPT2 | LLAMA)[name]
    return 6 * sum(p.numel() for p in model.parameters()) + 6 * layers * width * length


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--model", default="gpt2-124m", choices=sorted(GPT2 | LLAMA))
    parser.add_argument("--dtype", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ceiling-tflop-s", type=float, default=0)
    parser.add_argument("--pure", action="store_true")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--eager", action="store_true")
    how.add_argument("--by-blocks", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest" if args.dtype == "fp32" else "high")
    with torch.device(args.device):
        model = Model(args.model, args.length).to(torch.bfloat16 if args.pure else torch.float32)
    if args.by_blocks:
        model.compile_by_blocks()
    run = model if args.eager or args.by_blocks else torch.compile(model)
    kind = torch.device(args.device).type
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    vocabulary = (GPT2 | LLAMA)[args.model][-1]
    wait = torch.cuda.synchronize if kind == "cuda" else lambda: None

    def step():
        tokens = torch.randint(vocabulary, (args.batch, args.length + 1), device=args.device)
        with torch.autocast(kind, torch.bfloat16, enabled=args.dtype == "bf16" and not args.pure):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    rates = []
    for index in range(args.steps + 2):
        wait()
        start = time.perf_counter()
        step()
        wait()
        seconds = time.perf_counter() - start
        print(f"step {index + 1} of {args.steps + 2}: {seconds:.3f} s", file=sys.stderr, flush=True)
        if index >= 2:
            rates.append(round(args.batch * args.length / seconds, 1))
    flops = flops_per_token(model, args.model, args.length)
    figures = {"tokens_per_s": rates, "flops_per_token": flops}
    if args.ceiling_tflop_s > 0:
        figures["mfu"] = round(statistics.median(rates) * flops / (1e12 * args.ceiling_tflop_s), 4)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
