"""What DeepSpeed's flops profiler says of one forward pass, module by module, as `dslaunch profile --json` says it.
usage: deepspeed_flops.py TRAIN_JSON
Needs torch and deepspeed. The modules are called as Hugging Face's are, and so are their classes.
"""
import json
import sys

import torch
from deepspeed.profiling.flops_profiler import profiler
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Linear):
    pass


def attention(q, k, v, heads, kv_heads):
    rows, length, _ = q.shape
    q, k, v = (x.view(rows, length, n, -1).transpose(1, 2) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, -1)


class GPT2Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["n_head"]
        self.c_attn, self.c_proj = Conv1D(c["n_embd"], 3 * c["n_embd"]), Conv1D(c["n_embd"], c["n_embd"])

    def forward(self, x):
        return self.c_proj(attention(*self.c_attn(x).chunk(3, dim=-1), self.heads, self.heads))


class GPT2MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(c["n_embd"], 4 * c["n_embd"]), Conv1D(4 * c["n_embd"], c["n_embd"])

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class GPT2Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(c["n_embd"]), GPT2Attention(c)
        self.ln_2, self.mlp = nn.LayerNorm(c["n_embd"]), GPT2MLP(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c["vocab_size"], c["n_embd"]), nn.Embedding(c["n_positions"], c["n_embd"])
        self.h = nn.ModuleList(GPT2Block(c) for _ in range(c["n_layer"]))
        self.ln_f = nn.LayerNorm(c["n_embd"])

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT2LMHeadModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.transformer = GPT2Model(c)
        self.lm_head = nn.Linear(c["n_embd"], c["vocab_size"], bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.transformer(tokens))


class LlamaRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["hidden_size"]
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        keys = width // self.heads * self.kv_heads
        self.q_proj, self.k_proj = nn.Linear(width, width, bias=False), nn.Linear(width, keys, bias=False)
        self.v_proj, self.o_proj = nn.Linear(width, keys, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.o_proj(attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads, self.kv_heads))


class LlamaMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.self_attn = LlamaRMSNorm(c["hidden_size"]), LlamaAttention(c)
        self.post_attention_layernorm, self.mlp = LlamaRMSNorm(c["hidden_size"]), LlamaMLP(c)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(LlamaDecoderLayer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = LlamaRMSNorm(c["hidden_size"])

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class LlamaForCausalLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.model = LlamaModel(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, tokens):
        return self.lm_head(self.model(tokens))


def told(module):
    return {"kind": type(module).__name__, "macs": profiler.get_module_macs(module),
            "flops": profiler.get_module_flops(module),
            "modules": {name: told(child) for name, child in module.named_children()}}


def main():
    config = json.load(open(sys.argv[1]))
    shape = config["model"]
    model = (GPT2LMHeadModel if shape["family"] == "gpt2" else LlamaForCausalLM)(shape)
    tokens = torch.zeros(config["train_micro_batch_size_per_gpu"], config["data"]["sequence_length"], dtype=torch.long)
    profile = profiler.FlopsProfiler(model)
    profile.start_profile()
    with torch.no_grad():
        model(tokens)
    print(json.dumps({"params": sum(one.numel() for one in model.parameters()), "model": told(model)}))
    profile.end_profile()


main()
