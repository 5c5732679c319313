"""Saving and loading a checkpoint against torch.save/torch.load and fio, interleaved.

usage: checkpoint_vs_torch.py BIN_DIR [--python PYTHON] [--mib N] [--rounds N] [--folder DIR]

Each round runs checkpoint_bench, the torch peer and fio (where installed) once, one after the other, on
equal bytes in one folder; printed are medians of the rounds' rates and of the per-round ratios.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
LINE = re.compile(r"^(.*\S)\s+[\d.]+ s\s+([\d.]+) GB/s")
PAIRS = [("save, committed", "torch.save + fsync"), ("load, verified, cold", "torch.load, cold"),
         ("load, verified, warm", "torch.load, warm"), ("save, committed", "fio write + fsync, O_DIRECT"),
         ("load, verified, cold", "fio read, O_DIRECT")]


def rates(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {m[1]: float(m[2]) for m in map(LINE.match, out.splitlines()) if m}


def fio(mode, mib, folder):
    command = ["fio", "--name=fio", f"--directory={folder}", f"--size={mib}m", "--bs=8m", f"--rw={mode}",
               "--ioengine=psync", "--direct=1", "--end_fsync=1", "--output-format=terse"]
    fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(";")
    return float(fields[47 if mode == "write" else 6]) * 1024 / 1e9  # KiB/s


def one_round(args):
    size = [str(args.mib), "1", str(args.folder)]
    found = rates([str(args.bin_dir / "checkpoint_bench"), *size])
    if args.torch:
        found |= rates([args.python, str(HERE / "peers" / "torch_checkpoint.py"), *size])
    if shutil.which("fio"):
        found["fio write + fsync, O_DIRECT"] = fio("write", args.mib, args.folder)
        found["fio read, O_DIRECT"] = fio("read", args.mib, args.folder)
        (args.folder / "fio.0.0").unlink()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."))
    args = parser.parse_args()
    args.torch = subprocess.run([args.python, "-c", "import torch"], capture_output=True).returncode == 0
    rounds = [one_round(args) for _ in range(args.rounds)]
    for name in rounds[0]:
        print(f"{name:30} {statistics.median(r[name] for r in rounds):6.2f} GB/s")
    for ours, theirs in PAIRS:
        if theirs in rounds[0]:
            print(f"{ours}: {statistics.median(r[ours] / r[theirs] for r in rounds):.2f} x {theirs}")


if __name__ == "__main__":
    main()
