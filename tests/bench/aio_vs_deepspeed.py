"""Asynchronous I/O against DeepSpeed's async_io operator on one file, in requests of several sizes up to all of it: the same
block size, queue depth and threads, past the page cache, interleaved.

usage: aio_vs_deepspeed.py BIN_DIR --python PYTHON [--folder DIR] [--pairs N] [--gib N] [--block-size BYTES]
                           [--queue-depth N] [--threads N] [--requests MIB,...]

PYTHON has torch and deepspeed (peers/deepspeed_aio.py). Printed per engine, direction and size of requests: medians of both
bandwidths, the median of the ratios ours / DeepSpeed's of each pair, CPU seconds per GB of both; then the medians of each
at the size that is its best. Goal: 1.2 of its bandwidth.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def ours(args, path, engine, direction, request):
    out = subprocess.run([str(args.bin_dir / "aio_bench"), str(path), "--engine", engine, "--direction", direction,
                          "--bytes", str(args.bytes), "--block-size", str(args.block_size),
                          "--queue-depth", str(args.queue_depth), "--thread-count", str(args.threads),
                          "--request-bytes", str(request)],
                         check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


class DeepSpeed:
    def __init__(self, args, path):
        peer = pathlib.Path(__file__).parent / "peers/deepspeed_aio.py"
        self.process = subprocess.Popen([args.python, str(peer), str(path), str(args.bytes), str(args.block_size),
                                         str(args.queue_depth), str(args.threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        for line in self.process.stdout:  # it logs there, too
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("DeepSpeed's process has ended")

    def move(self, direction, request):
        self.process.stdin.write(f"{direction} {request}\n")
        self.process.stdin.flush()
        return self.answer()


def compare(args, path, peer, engine, direction, request):
    """The medians of both bandwidths."""
    pairs = []
    for turn in range(args.pairs):
        if turn % 2 == 0:
            mine, theirs = ours(args, path, engine, direction, request), peer.move(direction, request)
        else:
            theirs, mine = peer.move(direction, request), ours(args, path, engine, direction, request)
        pairs.append((mine, theirs))
    speed, cpu = "bytes_per_second", "cpu_seconds"

    def middle(of):
        return statistics.median(of(a, b) for a, b in pairs)

    print(f"{engine} {direction} by {request >> 20} MiB: {middle(lambda a, b: a[speed]) / 1e9:.2f} GB/s, DeepSpeed "
          f"{middle(lambda a, b: b[speed]) / 1e9:.2f} GB/s, ratio {middle(lambda a, b: a[speed] / b[speed]):.3f}; "
          f"CPU s/GB {middle(lambda a, b: a[cpu]) / args.bytes * 1e9:.4f}, DeepSpeed "
          f"{middle(lambda a, b: b[cpu]) / args.bytes * 1e9:.4f}", flush=True)
    return middle(lambda a, _: a[speed]), middle(lambda _, b: b[speed])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=1 << 20)
    parser.add_argument("--queue-depth", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", default="16,64", help="in MiB; all of the file is one more")
    parser.add_argument("--engines", default="io_uring,libaio")
    args = parser.parse_args()
    args.bytes = args.gib << 30
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        path = pathlib.Path(name) / "file"
        with path.open("wb") as file:
            for _ in range(args.bytes >> 20):
                file.write(b"\x5a" * (1 << 20))
        subprocess.run(["sync", str(path)], check=True)
        peer = DeepSpeed(args, path)
        for engine in args.engines.split(","):
            for direction in ("read", "write"):
                sizes = [int(size) << 20 for size in args.requests.split(",")] + [args.bytes]
                mine, theirs = zip(*(compare(args, path, peer, engine, direction, size) for size in sizes))
                print(f"{engine} {direction}, each at its best: {max(mine) / 1e9:.2f} GB/s, DeepSpeed "
                      f"{max(theirs) / 1e9:.2f} GB/s, ratio {max(mine) / max(theirs):.3f}", flush=True)


main()
