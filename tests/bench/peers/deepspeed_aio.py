# DeepSpeed's async_io operator on one file: for each line "read BYTES" or "write BYTES" on standard input, moves it all in
# requests of as many bytes, two of which are begun together, and prints the bytes per second of the transfer and the CPU
# seconds of the process meanwhile.
# usage: python deepspeed_aio.py FILE BYTES BLOCK_SIZE QUEUE_DEPTH [threads, default 1]
# Needs torch, deepspeed, a C++ compiler and libaio-dev: the operator is compiled when it is loaded.
import json
import sys
import time

import torch
from deepspeed.ops.op_builder import AsyncIOBuilder

path, size, block_size, queue_depth = sys.argv[1], *map(int, sys.argv[2:5])
threads = int(sys.argv[5]) if len(sys.argv) > 5 else 1
# Overlapped events, batched: the quicker of its variants here.
handle = AsyncIOBuilder().load().aio_handle(block_size, queue_depth, False, True, threads)
tensors = {}  # of a request's bytes: two, or one for all of the file; only whole locked tensors are taken for locked


def tensors_of(request):
    if request not in tensors:
        tensors.clear()
        tensors[request] = [handle.new_cpu_locked_tensor(request, torch.empty(0, dtype=torch.uint8))
                            for _ in range(1 if request == size else 2)]
        for tensor in tensors[request]:
            tensor.fill_(0x5A)
    return tensors[request]


def move(direction, request):
    if request == size:
        (handle.sync_pread if direction == "read" else handle.sync_pwrite)(tensors_of(request)[0], path, 0)
        return
    begin = handle.async_pread if direction == "read" else handle.async_pwrite
    for at in range(0, size, 2 * request):
        for turn, tensor in enumerate(tensors_of(request)):
            begin(tensor, path, at + turn * request)
        handle.wait()


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    direction, request = line.split()
    tensors_of(int(request))
    wall, cpu = time.monotonic(), time.process_time()
    move(direction, int(request))
    seconds = time.monotonic() - wall
    print(json.dumps({"bytes_per_second": size / seconds, "cpu_seconds": time.process_time() - cpu}), flush=True)
