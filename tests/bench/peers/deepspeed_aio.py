# DeepSpeed's async_io operator on one file: for each line "read" or "write" on standard input, moves it all and prints
# the bytes per second of the transfer and the CPU seconds of the process meanwhile.
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
tensor = handle.new_cpu_locked_tensor(size, torch.empty(0, dtype=torch.uint8))
tensor.fill_(0x5A)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    wall, cpu = time.monotonic(), time.process_time()
    (handle.sync_pread if line.strip() == "read" else handle.sync_pwrite)(tensor, path, 0)
    seconds = time.monotonic() - wall
    print(json.dumps({"bytes_per_second": size / seconds, "cpu_seconds": time.process_time() - cpu}), flush=True)
