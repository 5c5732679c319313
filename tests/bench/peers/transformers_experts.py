"""Steps of a Qwen3-MoE of transformers with torch's fused AdamW: the shapes "moe-8" and "moe-64" of model_shapes.h. Prints
tokens per second of each step.

usage: transformers_experts.py MODEL IMPLEMENTATION [--batch N] [--length N] [--steps N] [--threads N]
IMPLEMENTATION: eager, batched_mm or grouped_mm, as transformers calls its ways to compute experts.
"""
import argparse
import json
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=("moe-8", "moe-64"))
    parser.add_argument("implementation")
    for name, value in (("batch", 2), ("length", 256), ("steps", 6), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = transformers.Qwen3MoeConfig(
        num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8, head_dim=64, hidden_size=512, vocab_size=1024,
        num_experts=int(args.model.split("-")[1]), num_experts_per_tok=2, moe_intermediate_size=1024, norm_topk_prob=True,
        use_cache=False)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa",
                                                          experts_implementation=args.implementation)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    rates = []
    for _ in range(args.steps):
        tokens = torch.randint(1024, (args.batch, args.length))
        begin = time.perf_counter()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.append(args.batch * args.length / (time.perf_counter() - begin))
    print(json.dumps({"tokens_per_s": rates[2:]}))


if __name__ == "__main__":
    main()
