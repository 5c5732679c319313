"""Training speed of DeepSpeed's pipeline engine (PipelineModule, 1F1B) on a GPT-2 shape, with torch on CPUs and gloo: prints a
JSON object with the tokens per second of each timed step.

usage: torchrun --nproc-per-node STAGES deepspeed_pipeline.py --micro-batches N --micro-batch SEQUENCES --length TOKENS
       --layers N --width N --heads N --vocabulary N --steps N
Needs torch and deepspeed, and a C++ compiler: its messages between ranks of a host are compiled when it is loaded. Its pipeline
engine reduces tied weights over process groups as on a GPU; nothing of it is changed here.
"""
import argparse
import json
import pathlib
import sys
import time

import deepspeed
import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from torch_gpt2 import Block  # noqa: E402


class Embedding(nn.Module):
    def __init__(self, vocabulary, positions, width):
        super().__init__()
        self.table, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)

    @property
    def weight(self):
        return self.table.weight

    def forward(self, tokens):
        return self.table(tokens) + self.positions(torch.arange(tokens.shape[1]))


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def layers(args):
    ends = (Embedding, args.vocabulary, args.length, args.width)
    yield TiedLayerSpec("table", *ends, tied_weight_attr=["weight"])
    for _ in range(args.layers):
        yield LayerSpec(Block, args.width, args.heads)
    yield LayerSpec(nn.LayerNorm, args.width)
    yield TiedLayerSpec("table", *ends, forward_fn=lambda ends, x: x @ ends.weight.t(), tied_weight_attr=["weight"])


def batches(args):
    while True:
        tokens = torch.randint(args.vocabulary, (args.micro_batch, args.length + 1))
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def main():
    parser = argparse.ArgumentParser()
    for name in ("layers", "width", "heads", "vocabulary", "micro-batches", "micro-batch", "length", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    stages = torch.distributed.get_world_size()
    net = PipelineModule(list(layers(args)), num_stages=stages, loss_fn=loss, partition_method="type:block")
    for module in net.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
    config = {"train_batch_size": args.micro_batch * args.micro_batches, "gradient_clipping": 1.0, "steps_per_print": 10**9,
              "train_micro_batch_size_per_gpu": args.micro_batch,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1, "torch_adam": True}}}
    engine, *_ = deepspeed.initialize(model=net, model_parameters=[p for p in net.parameters()], config=config)
    samples, rates = batches(args), []
    for _ in range(args.steps + 2):  # two that are not timed
        torch.distributed.barrier()
        start = time.perf_counter()
        engine.train_batch(data_iter=samples)
        torch.distributed.barrier()
        rates.append(round(config["train_batch_size"] * args.length / (time.perf_counter() - start), 1))
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"tokens_per_s": rates[2:]}), flush=True)


if __name__ == "__main__":
    main()
