"""Seconds of DeepSpeed's compiled CPU Adam, the least of five: of the update alone, and with what ZeRO-Offload does in
passes of its own (unscale and clip, then the copy in bf16). usage: deepspeed_adam.py THREADS NUMEL
Needs torch, deepspeed and a C++ compiler: the operator is compiled when it is loaded.
"""
import sys
import time

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam


def least(work, rounds=6):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    param = torch.nn.Parameter(torch.zeros(int(sys.argv[2])))
    param.grad = torch.randn(param.numel())
    copy = torch.empty(param.numel(), dtype=torch.bfloat16)
    optimizer = DeepSpeedCPUAdam([param], lr=1e-3, weight_decay=0.01, adamw_mode=True)

    def offloaded():
        param.grad.mul_(0.999)
        optimizer.step()
        copy.copy_(param.data)

    print(f"{least(optimizer.step):.6f} {least(offloaded):.6f}")


main()
