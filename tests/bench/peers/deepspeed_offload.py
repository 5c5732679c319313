"""Training speed of DeepSpeed's ZeRO-Offload (stage 2, optimizer state and update on the host) on the GPT-2 124M shape, with
torch on CPUs: prints a JSON object with the tokens per second of each timed step of all ranks together.

usage: torchrun --nproc-per-node RANKS deepspeed_offload.py --batch SEQUENCES --length TOKENS --dtype fp32|bf16 --steps N
Needs torch, deepspeed and a C++ compiler: its Adam is compiled when it is loaded.
"""
import argparse
import json
import os
import pathlib
import sys
import time

import deepspeed
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from torch_gpt2 import Gpt2  # noqa: E402


def config(args, ranks):
    return {"train_batch_size": args.batch, "train_micro_batch_size_per_gpu": args.batch // ranks,
            "bf16": {"enabled": args.dtype == "bf16"}, "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}},
            "zero_optimization": {"stage": 2, "overlap_comm": True, "contiguous_gradients": True,
                                  "offload_optimizer": {"device": "cpu"}}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    ranks = int(os.environ["WORLD_SIZE"])
    engine, *_ = deepspeed.initialize(model=Gpt2(), config=config(args, ranks))
    rates = []
    for _ in range(args.steps + 2):  # two that are not timed
        tokens = torch.randint(50257, (args.batch // ranks, args.length + 1))
        start = time.perf_counter()
        engine.backward(engine(tokens[:, :-1], tokens[:, 1:]))
        engine.step()
        torch.distributed.barrier()
        rates.append(round(args.batch * args.length / (time.perf_counter() - start), 1))
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"tokens_per_s": rates[2:]}), flush=True)


if __name__ == "__main__":
    main()
