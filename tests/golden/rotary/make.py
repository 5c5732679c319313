"""Makes the rotary frequencies beside this file with transformers' own functions: of each config.json their inverse
frequencies and the factor of sines and cosines.

usage: make.py > frequencies.json
Made with torch 2.15.0 and transformers 5.24.0, on the CPU.
"""
import json
import sys

import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
CASES = {
    "Llama 3.1": {"rope_theta": 5e5, "head_dim": 128, "max_position_embeddings": 131072,
                  "rope_scaling": {**LLAMA3, "factor": 8.0}},
    "Llama 3.2": {"rope_theta": 5e5, "head_dim": 64, "max_position_embeddings": 131072,
                  "rope_scaling": {**LLAMA3, "factor": 32.0}},
    "linear": {"rope_theta": 1e4, "head_dim": 128, "max_position_embeddings": 16384,
               "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "yarn": {"rope_theta": 1e6, "head_dim": 128, "max_position_embeddings": 131072,
             "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    "yarn with everything": {"rope_theta": 1e4, "head_dim": 64, "max_position_embeddings": 65536,
                             "rope_scaling": {"rope_type": "yarn", "factor": 16.0, "beta_fast": 20.0, "beta_slow": 2.0,
                                              "attention_factor": 1.5, "original_max_position_embeddings": 4096}},
    "yarn of narrow heads": {"rope_theta": 1e4, "head_dim": 8, "max_position_embeddings": 4096,
                             "rope_scaling": {"rope_type": "yarn", "factor": 2.0,
                                              "original_max_position_embeddings": 64}},
    "yarn with scales": {"rope_theta": 1e4, "head_dim": 64, "max_position_embeddings": 163840,
                         "rope_scaling": {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.707,
                                          "original_max_position_embeddings": 4096}},
    "yarn with one scale": {"rope_theta": 1e4, "head_dim": 64, "max_position_embeddings": 32768,
                            "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.5, "mscale_all_dim": 0,
                                             "original_max_position_embeddings": 4096}},
    # As gpt-oss has it.
    "yarn without truncation": {"rope_theta": 150000.0, "head_dim": 64, "max_position_embeddings": 131072,
                                "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                                 "truncate": False, "original_max_position_embeddings": 4096}},
    "yarn of scaled attention": {"rope_theta": 1e4, "head_dim": 80, "max_position_embeddings": 12288,
                                 "rope_scaling": {"rope_type": "yarn", "factor": 3.0, "mscale": 2.0, "mscale_all_dim": 0.5,
                                                  "attention_factor": 1.25, "truncate": None,
                                                  "original_max_position_embeddings": 4096}},
    "Phi-4-mini": {"model_type": "phi3", "rope_theta": 1e4, "head_dim": 128, "max_position_embeddings": 131072,
                   "partial_rotary_factor": 0.75, "original_max_position_embeddings": 4096,
                   "rope_scaling": {"type": "longrope", "short_factor": [1 + j / 100 for j in range(48)],
                                    "long_factor": [1 + j for j in range(48)]}},
    "longrope with a factor": {"model_type": "phi3", "rope_theta": 1e4, "head_dim": 8, "max_position_embeddings": 4096,
                               "original_max_position_embeddings": 512,
                               "rope_scaling": {"rope_type": "longrope", "factor": 3.0, "short_factor": [1.0, 1.1, 1.3, 2.0],
                                                "long_factor": [1.0, 2.0, 3.0, 4.0]}},
}
CLASSES = {"llama": transformers.LlamaConfig, "phi3": transformers.Phi3Config}


def main():
    out = []
    for name, words in CASES.items():
        words = {"model_type": "llama", "hidden_size": 4 * words["head_dim"], "num_attention_heads": 4, **words}
        config = CLASSES[words["model_type"]](**{key: dict(value) if isinstance(value, dict) else value
                                                 for key, value in words.items() if key != "model_type"})
        frequencies, factor = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, "cpu")
        out.append({"name": name, "config": words,
                    "frequencies": frequencies.tolist(), "factor": float(factor)})
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
