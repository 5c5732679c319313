"""A step that swaps against what it would be if only the longer of its two parts counted: the same step with everything on
the host, or its bytes at the bandwidth that fio reaches on the same disk with the same mix of reads and writes.

usage: swap_vs_fio.py BIN_DIR --folder DIR [--rounds N] [--tokens N,N] [--layers N] [--buffers N] [--part-numel N] ...

In each round, in turn: fio, a step on the host, one with optimizer state on NVMe, one with weights and state there, and each
with updates ahead of the norm (super_offload). Gradients are clipped to --clipping, by default longer than they are: where
clipping strikes, what was updated ahead is made again. Printed per number of tokens are the medians, and of the rounds'
ratios; the share of reads that is hidden is what a step did not stand still for, of the time that its reads take at fio's
bandwidth. With updates ahead it is not the step that stands still, but a thread beside it. Goals: a ratio of at most 1.10,
and 80 % hidden.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

PLACES = {"host": ("host", "device"), "state on NVMe": ("nvme", "device"),
          "state on NVMe, ahead": ("nvme", "device", "--ahead"),
          "weights and state on NVMe": ("nvme", "nvme"), "weights and state on NVMe, ahead": ("nvme", "nvme", "--ahead")}


class Steps:
    """A process that makes a step when it is asked to."""

    def __init__(self, args, folder, tokens, state, params, *more):
        batch = max(1, tokens // args.length)
        self.process = subprocess.Popen(
            [str(args.bin_dir / "swap_bench"), "--folder", folder, "--state", state, "--params", params,
             "--layers", str(args.layers), "--width", str(args.width), "--batch", str(batch),
             "--length", str(min(tokens, args.length)), "--threads", str(args.threads), "--buffers", str(args.buffers),
             "--part-numel", str(args.part_numel), "--bucket-numel", str(args.bucket_numel),
             "--block-size", str(args.block_size), "--queue-depth", str(args.queue_depth), "--clipping", str(args.clipping), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def fio(args, path, read_share):
    """Bytes per second of reads alone, and of both in that mix."""
    def run(*what):
        out = subprocess.run(
            ["fio", "--name=job", f"--filename={path}", "--ioengine=io_uring", "--direct=1", f"--bs={args.block_size}",
             f"--iodepth={args.queue_depth}", f"--size={args.mib}m", "--thread", "--overwrite=1", "--fallocate=none",
             "--invalidate=0", "--scramble_buffers=0", "--output-format=json", *what],
            check=True, capture_output=True, text=True)
        job = json.loads(out.stdout)["jobs"][0]
        moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
        return moved * 1000 / job["job_runtime"]
    return run("--rw=read"), run("--rw=rw", f"--rwmixread={round(100 * read_share)}")


def one_round(args, path, steps, share):
    reads, both = fio(args, path, share)
    return {"reads": reads, "both": both, **{name: process.step() for name, process in steps.items()}}


def tell(name, rounds):
    middle = statistics.median
    bytes_of = [r[name]["bytes_read"] + r[name]["bytes_written"] for r in rounds]
    disk = [b / r["both"] for b, r in zip(bytes_of, rounds)]
    host = [r["host"]["seconds"] for r in rounds]
    took = [r[name]["seconds"] for r in rounds]
    ratios = [t / max(h, d) for t, h, d in zip(took, host, disk)]
    hidden = [1 - r[name]["read_waits_s"] / (r[name]["bytes_read"] / r["reads"]) for r in rounds]
    print(f"  {name}: {middle(took):.3f} s; on the host {middle(host):.3f}, the disk's bytes {middle(disk):.3f} "
          f"({bytes_of[0] / 1e9:.2f} GB); ratio to the longer {middle(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f}), to their sum {middle(t / (h + d) for t, h, d in zip(took, host, disk)):.2f}; "
          f"reads hidden {100 * middle(hidden):.0f} %; stood still {middle(r[name]['read_waits_s'] for r in rounds):.3f} s for reads, "
          f"{middle(r[name]['write_waits_s'] for r in rounds):.3f} s for writes", flush=True)


def compare(args, folder, tokens):
    path = pathlib.Path(folder) / "fio"
    with path.open("wb") as file:
        for _ in range(args.mib):
            file.write(b"\x5a" * (1 << 20))
    subprocess.run(["sync", str(path)], check=True)
    steps = {name: Steps(args, folder, tokens, *places) for name, places in PLACES.items()}
    for process in steps.values():  # pages and primitives are there then
        first = process.step()
    share = first["bytes_read"] / max(1, first["bytes_read"] + first["bytes_written"])
    rounds = [one_round(args, path, steps, share) for _ in range(args.rounds)]
    for process in steps.values():
        process.end()
    path.unlink()
    reads, both = (statistics.median(r[key] for r in rounds) / 1e9 for key in ("reads", "both"))
    print(f"{tokens} tokens, {first['parameters'] / 1e6:.1f} M weights: fio reads {reads:.2f} GB/s, both ways {both:.2f} GB/s")
    for name in list(PLACES)[1:]:
        tell(name, rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--folder", default=None, help="on the disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", default="32,4096", help="of a step: few, so that the disk is longer, and many")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--buffers", type=int, default=4)
    parser.add_argument("--part-numel", type=int, default=4_000_000)
    parser.add_argument("--bucket-numel", type=int, default=10_000_000)
    parser.add_argument("--block-size", type=int, default=1 << 20)
    parser.add_argument("--queue-depth", type=int, default=32)
    parser.add_argument("--clipping", type=float, default=1e6)
    parser.add_argument("--mib", type=int, default=512, help="that fio moves each time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for tokens in args.tokens.split(","):
            compare(args, folder, int(tokens))


main()
