"""Seconds of a step of torch.optim.Muon, the least of five. usage: torch_muon.py THREADS ROWSxCOLUMNS..."""
import sys
import time

import torch


def main():
    torch.set_num_threads(int(sys.argv[1]))
    params = []
    for shape in sys.argv[2:]:
        rows, columns = map(int, shape.split("x"))
        params.append(torch.nn.Parameter(torch.zeros(rows, columns)))
        params[-1].grad = torch.randn(rows, columns)
    optimizer = torch.optim.Muon(params, lr=0.02, weight_decay=0.0)
    least = 1e9
    for _ in range(6):
        start = time.perf_counter()
        optimizer.step()
        least = min(least, time.perf_counter() - start)
    print(f"{least:.6f}")


if __name__ == "__main__":
    main()
