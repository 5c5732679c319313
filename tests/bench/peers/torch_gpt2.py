"""Training speed of PyTorch on the GPT-2 124M shape: plain model code, random weights and tokens.

After two steps that are not timed (in which --compile compiles) it prints "ready"; for every line on standard
input it then makes some steps and prints one JSON object with the tokens per second of each.

bf16 is autocast (weights, gradients and optimizer state stay fp32, products run in bf16) or, with --pure,
everything in bf16. --keep-grads lets gradients keep their memory from step to step. --recompute is torch.utils.checkpoint of
every block.
"""
import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary=50257, positions=1024, width=768, layers=12, heads=12, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        # GPT-2's own. PyTorch's, of deviation 1, makes gradients so small that products of them are slow.
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--keep-grads", action="store_true")
    parser.add_argument("--recompute", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    autocast = args.dtype == "bf16" and not args.pure
    model = Gpt2(recompute=args.recompute).to(torch.bfloat16 if args.pure else torch.float32)
    run = torch.compile(model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

    def timed_step():
        tokens = torch.randint(50257, (args.batch, args.length + 1))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not args.keep_grads)
        return args.batch * args.length / (time.perf_counter() - start)

    for _ in range(2):
        timed_step()
    print("ready", flush=True)
    for _ in sys.stdin:
        rates = [round(timed_step(), 1) for _ in range(args.steps)]
        print(json.dumps({"tokens_per_s": rates}), flush=True)


if __name__ == "__main__":
    main()
