"""Makes the routes beside this file with transformers' own routers: logits, the experts of each token, their weights, and
the gradient of the sum of weights times `factors` with regard to the logits; of Mixtral the balance loss, too.

usage: make.py > routers.json
Made with torch 2.15.0 and transformers 5.24.0, on the CPU.
"""
import json
import sys

import torch
from transformers.models.deepseek_v3 import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.gpt_oss import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter
from transformers.models.mixtral import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter, load_balancing_loss_func
from transformers.models.qwen3_moe import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

TOKENS = 6
# name, router, config, experts, k, what the rule is called beside them
CASES = [
    ("Mixtral", MixtralTopKRouter, MixtralConfig, 8, 2, {"weight_sum": "one"}),
    ("Qwen3-MoE", Qwen3MoeTopKRouter, Qwen3MoeConfig, 16, 4, {"weight_sum": "one", "norm_topk_prob": True}),
    ("Qwen3-MoE as it is", Qwen3MoeTopKRouter, Qwen3MoeConfig, 16, 4, {"weight_sum": "as is", "norm_topk_prob": False}),
    ("DeepSeek-V3", DeepseekV3TopkRouter, DeepseekV3Config, 16, 4,
     {"weight_sum": "epsilon", "norm_topk_prob": True, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5,
      "sigmoid": True}),
    ("gpt-oss", GptOssTopKRouter, GptOssConfig, 12, 4, {"weight_sum": "one"}),
]


def case(name, router, config, experts, k, rule, seed):
    torch.manual_seed(seed)
    keys = {key: value for key, value in rule.items() if key not in ("weight_sum", "sigmoid")}
    made = router(config(hidden_size=experts, num_local_experts=experts, num_experts_per_tok=k,
                         **({} if router is not Qwen3MoeTopKRouter else {"num_experts": experts}), **keys))
    with torch.no_grad():
        made.weight.copy_(torch.eye(experts))  # the hidden states are the logits
    bias = []
    if hasattr(made, "e_score_correction_bias"):
        made.e_score_correction_bias.copy_(torch.rand(experts) * 0.2)
        bias = made.e_score_correction_bias.tolist()
    logits = torch.randn(TOKENS, experts).mul(1.5).requires_grad_()
    _, weights, chosen = made(logits)
    factors = torch.randn(TOKENS, experts)
    (weights * factors.gather(1, chosen)).sum().backward()
    out = {"name": name, "experts": experts, "choices": k, "rule": rule, "bias": bias, "logits": logits.flatten().tolist(),
           "chosen": chosen.flatten().tolist(), "weights": weights.flatten().tolist(), "factors": factors.flatten().tolist(),
           "gradient": logits.grad.flatten().tolist()}
    if router is MixtralTopKRouter:
        logits.grad = None
        loss = load_balancing_loss_func((logits,), experts, k)
        loss.backward()
        out |= {"loss": loss.item(), "loss_gradient": logits.grad.flatten().tolist()}
    return out


def main():
    json.dump([case(*one, seed) for seed, one in enumerate(CASES)], sys.stdout)
    print()


if __name__ == "__main__":
    main()
