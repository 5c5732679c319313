"""Makes what transformers itself keeps of given logits, and how likely that is: transformers.json beside this file.

usage: make_transformers.py > transformers.json
Made with transformers 5.24.0 and torch 2.15.0. The processors, and their order, are those that generate() makes of a
configuration. "cases" have no two equal logits; "ties" have some at an edge, and say what stays with what logit.
"""
import json
import random
import sys

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

MODEL = LlamaForCausalLM(LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=1, num_key_value_heads=1))


def processed(settings, before, logits):
    config = GenerationConfig(do_sample=True, **{"top_k": 0, **settings})
    config, _ = MODEL._prepare_generation_config(config)
    ids = torch.tensor([before], dtype=torch.long)
    mask = torch.ones_like(ids)
    processors = MODEL._get_logits_processor(config, input_ids_seq_length=len(before), encoder_input_ids=ids,
                                             device="cpu", model_kwargs={"attention_mask": mask})
    return processors(ids, torch.tensor([logits], dtype=torch.float32))[0]


def settings_of(chance):
    out = {}
    if chance.random() < 0.6:
        out["repetition_penalty"] = chance.choice([0.5, 0.9, 1.05, 1.3, 2.0, 5.0])
    if chance.random() < 0.6:
        out["temperature"] = chance.choice([0.1, 0.6, 0.9, 1.5, 4.0])
    if chance.random() < 0.5:
        out["top_k"] = chance.choice([2, 3, 8, 23, 24, 50, 1000])
    if chance.random() < 0.5:
        out["top_p"] = chance.choice([1e-6, 0.1, 0.5, 0.8, 0.95, 0.999, 1.0])
    if chance.random() < 0.5:
        out["min_p"] = chance.choice([0.0, 0.01, 0.05, 0.2, 0.6, 1.0])
    return out


def cases(chance):
    out = []
    while len(out) < 150:
        settings = settings_of(chance)
        # Steps of 1/64 are the same number in fp32 and in fp64; some logits are 0, and some below it.
        logits = [number / 64 for number in chance.sample(range(-300, 300), 24)]
        before = chance.choices(range(24), k=chance.choice([1, 5, 40]))
        scores = processed(settings, before, logits)
        kept = [score for score in scores.tolist() if score != -float("inf")]
        if len(set(kept)) < len(kept):  # two became equal
            continue
        out.append({"settings": settings, "before": before, "logits": logits,
                    "probabilities": [round(p, 9) for p in scores.softmax(-1).tolist()]})
    return out


def ties():
    out = []
    for settings, logits in [
        ({"top_k": 2}, [5, 5, 5, 5]), ({"top_k": 3}, [1, 7, 3, 3, 3, 0]), ({"top_k": 2}, [4, 1, 4, 4, -2]),
        ({"top_k": 2, "top_p": 0.6}, [1, 1, 1, -9]), ({"top_p": 0.5}, [2, 2, 2, 2]), ({"top_p": 0.75}, [2, 2, 2, 2]),
        ({"top_p": 0.51}, [2, 2, 2, 2]), ({"top_p": 0.3}, [0, 9, 9, 9]), ({"min_p": 1.0}, [3, 3, 1, 3]),
        ({"min_p": 0.5}, [3, 3, 1, 3]), ({"temperature": 0.5, "top_p": 0.5, "min_p": 1.0}, [2, 2, 2, 2]),
        ({"repetition_penalty": 2.0, "top_k": 3}, [4, 2, 2, 2, 2]), ({"repetition_penalty": 2.0}, [-1, -2, 0, -2]),
    ]:
        logits = [float(logit) for logit in logits]
        scores = processed(settings, [0, 0], logits).tolist()
        out.append({"settings": settings, "before": [0, 0], "logits": logits,
                    "kept": [i for i, score in enumerate(scores) if score != -float("inf")]})
    return out


def main():
    lines = {"cases": cases(random.Random(11)), "ties": ties()}
    parts = (f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in rows) + "\n]" for name, rows in lines.items())
    sys.stdout.write("{" + ",\n".join(parts) + "}\n")


main()
