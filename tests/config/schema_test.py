"""Checks the generated JSON Schema with a real validator (python3-jsonschema): it is a schema, it accepts the
configurations that the reader accepts, and it refuses misspelt keys and wrong values at any depth.

usage: schema_test.py PRINT_SCHEMA_PROGRAM          exit status 77 (skipped) without the jsonschema module
"""
import json
import subprocess
import sys

try:
    import jsonschema
    Validator = jsonschema.Draft202012Validator
except (ImportError, AttributeError):
    print("skipped: no jsonschema module with draft 2020-12")
    sys.exit(77)

ADAM = {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}}
ACCEPTED = [
    {},
    {"train_batch_size": 8, "optimizer": ADAM, "fp16": {"enabled": True}, "zero_optimization": True},
    {"train_batch_size": "auto", "gradient_clipping": "auto", "zero_optimization": {"stage": "auto"}},
    {"optimizer": {"type": "ADAMW", "params": {"lr": 1}}},
    {"optimizer": {"type": "OneBitAdam", "params": {"lr": 2e-4, "freeze_step": 400, "cuda_aware": False}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": [0.001, 0.002]}}},
    {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2}}},
    {"model": "folder", "data": {"train": "a.txt"}, "train": {"steps": 10, "resume": "never"}},
    {"model": {"family": "gpt2", "n_layer": 6}, "include": ["base.json"]},
    {"zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "max_live_parameters": 1e9,
                           "offload_param": {"device": "nvme", "nvme_path": "/x"}, "offload_optimizer": None}},
    {"sparse_attention": {"num_local_blocks": 4}},
    {"sparse_attention": {"mode": "bigbird", "num_random_blocks": 1}},
    {"amp": {"enabled": True, "opt_level": "O2", "anything": 1}},
    {"compression_training": {"row_pruning": {"different_groups": {"g": {"modules": ["a"], "params": {"dense_ratio": 0.3}}}}}},
    {"communication_data_type": "FP16", "checkpoint": {"tag_validation": "WARN"}},
]
REFUSED = [
    {"train_batch_sise": 8},
    {"train_batch_size": 0},
    {"train_batch_size": "eight"},
    {"zero_optimization": {"stage": 4}},
    {"zero_optimization": {"stge": 2}},
    {"zero_optimization": {"offload_param": {"device": "disk"}}},
    {"optimizer": {"type": "Adam", "params": {"freeze_step": 400}}},
    {"optimizer": {"type": "Adam", "params": {"betas": [0.9]}}},
    {"optimizer": {"type": "Adamm"}},
    {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}}},
    {"scheduler": {"type": "warmuplr"}},
    {"sparse_attention": {"mode": "dense", "num_local_blocks": 4}},
    {"amp": {"opt_level": "O1"}},
    {"model": {"family": "llama", "n_layer": 2}},
    {"bf16": {"enabled": "maybe"}},
    {"compression_training": {"row_pruning": {"different_groups": {"g": {"module": ["a"]}}}}},
    {"data": {"order": "random"}},
    [],
]


def main():
    schema = json.loads(subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout)
    Validator.check_schema(schema)
    validator = Validator(schema)
    bad = 0
    for config in ACCEPTED:
        for error in validator.iter_errors(config):
            print("should be accepted:", json.dumps(config), "-", error.message[:200])
            bad += 1
    for config in REFUSED:
        if validator.is_valid(config):
            print("should be refused:", json.dumps(config))
            bad += 1
    print(f"{len(ACCEPTED)} accepted, {len(REFUSED)} refused, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
