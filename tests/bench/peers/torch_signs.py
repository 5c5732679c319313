"""Seconds of compression to signs with error feedback by torch and numpy, the least of five: what is sent is one bit per
number and the norm's share; what was not said is kept. usage: torch_signs.py THREADS NUMEL
"""
import math
import sys
import time

import numpy
import torch


def compress(values, error):
    values.add_(error)
    scale = torch.linalg.vector_norm(values) / math.sqrt(values.numel())
    is_positive = values >= 0
    torch.sub(values, torch.where(is_positive, scale, -scale), out=error)
    return numpy.packbits(is_positive.numpy()), scale


def main():
    torch.set_num_threads(int(sys.argv[1]))
    given, error = torch.randn(int(sys.argv[2])), torch.zeros(int(sys.argv[2]))
    values = torch.empty_like(given)
    least = 1e9
    for _ in range(6):
        values.copy_(given)
        start = time.perf_counter()
        compress(values, error)
        least = min(least, time.perf_counter() - start)
    print(f"{least:.6f}")


if __name__ == "__main__":
    main()
