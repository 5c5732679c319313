"""Asynchronous I/O against fio on one file of this machine: the same engine, block size and queue depth, registered
memory and file in both, past the page cache, interleaved.

usage: aio_vs_fio.py BIN_DIR [--folder DIR] [--pairs N] [--gib N] [--block-size BYTES] [--queue-depth N] [--iomem KIND]

Printed per engine and direction: the medians of both bandwidths, the median of the ratio ours / fio's of each pair, and
CPU seconds per GB of both. Goals: 0.95 of fio's bandwidth with no more CPU time. --folder names the disk. --iomem mmaphuge
gives fio's buffers huge pages, as ours have them; it needs some (/proc/sys/vm/nr_hugepages).
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def ours(args, path, engine, direction):
    out = subprocess.run([str(args.bin_dir / "aio_bench"), str(path), "--engine", engine, "--direction", direction,
                          "--bytes", str(args.bytes), "--block-size", str(args.block_size),
                          "--queue-depth", str(args.queue_depth)], check=True, capture_output=True, text=True)
    figures = json.loads(out.stdout)
    return figures["bytes_per_second"], figures["cpu_seconds"]


def fio(args, path, engine, direction):
    command = ["fio", "--name=job", f"--filename={path}", f"--ioengine={engine}", f"--rw={direction}", "--direct=1",
               f"--bs={args.block_size}", f"--iodepth={args.queue_depth}", f"--size={args.bytes}", "--thread",
               "--overwrite=1", f"--iomem={args.iomem}", "--scramble_buffers=0", "--fallocate=none", "--invalidate=0", "--output-format=json"]
    if engine == "io_uring":
        command += ["--fixedbufs=1", "--registerfiles=1"]
    job = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["jobs"][0]
    side = job[direction]
    if side["io_bytes"] != args.bytes:
        raise SystemExit(f"fio moved {side['io_bytes']} bytes of {args.bytes}")
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return side["io_bytes"] * 1000 / side["runtime"], cpu


def compare(args, path, engine, direction):
    pairs = []
    for turn in range(args.pairs):
        both = [ours, fio] if turn % 2 == 0 else [fio, ours]
        results = {run: run(args, path, engine, direction) for run in both}
        pairs.append((results[ours], results[fio]))
    gigabytes = args.bytes / 1e9
    middle = statistics.median
    print(f"{engine} {direction}: {middle(a[0] for a, _ in pairs) / 1e9:.2f} GB/s, "
          f"fio {middle(b[0] for _, b in pairs) / 1e9:.2f} GB/s, ratio {middle(a[0] / b[0] for a, b in pairs):.3f}; "
          f"CPU s/GB {middle(a[1] for a, _ in pairs) / gigabytes:.4f}, "
          f"fio {middle(b[1] for _, b in pairs) / gigabytes:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--block-size", type=int, default=1 << 20)
    parser.add_argument("--queue-depth", type=int, default=32)
    parser.add_argument("--engines", default="io_uring,libaio")
    parser.add_argument("--iomem", default="malloc")
    args = parser.parse_args()
    args.bytes = args.gib << 30
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        path = pathlib.Path(name) / "file"
        with path.open("wb") as file:
            for _ in range(args.bytes >> 20):
                file.write(b"\x5a" * (1 << 20))
        subprocess.run(["sync", str(path)], check=True)
        for engine in args.engines.split(","):
            for direction in ("read", "write"):
                compare(args, path, engine, direction)


main()
