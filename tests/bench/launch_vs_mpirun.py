"""From the launch to the end of the first barrier of all ranks: dslaunch against mpirun with MPI_Init, on this
machine, interleaved.

usage: launch_vs_mpirun.py BIN_DIR [--rounds N] [--ranks 2,64]

Printed per number of ranks: the medians of both times, and the median of the ratio mpirun / dslaunch of each
round (above 1: dslaunch is faster). Goals: 2 ranks 0.10 s and 3, 64 ranks 5.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 8},
    "train": {"steps": 1}, "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
}


def seconds_to_barrier(command, ranks, folder, environment):
    stamps = folder / "stamps"
    stamps.unlink(missing_ok=True)
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    subprocess.run(command, cwd=folder, check=True, capture_output=True,
                   env={**os.environ, **environment, "BARRIER_STAMPS": str(stamps)})
    times = [float(line) for line in stamps.read_text().split()]
    if len(times) != ranks:
        raise SystemExit(f"{len(times)} of {ranks} ranks came to the barrier: {command}")
    return max(times) - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", default="2,64")
    args = parser.parse_args()
    binaries = args.bin_dir.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train.json").write_text(json.dumps(CONFIG))
        (folder / "corpus.txt").write_text("in the beginning\n" * 100)
        for ranks in map(int, args.ranks.split(",")):
            ours, theirs, ratios = [], [], []
            for number in range(args.rounds):
                launch = [str(binaries / "dslaunch"), "train.json", "--num-ranks", str(ranks),
                          "--num-threads", "1", "--run-dir", f"run-{ranks}-{number}"]
                ours.append(seconds_to_barrier(launch, ranks, folder,
                                               {"DSLAUNCH_RANKD": str(binaries / "barrier_rank")}))
                mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks),
                          str(binaries / "mpi_barrier")]
                theirs.append(seconds_to_barrier(mpirun, ranks, folder, {}))
                ratios.append(theirs[-1] / ours[-1])
            print(f"{ranks} ranks: dslaunch {statistics.median(ours):.3f} s, mpirun "
                  f"{statistics.median(theirs):.3f} s, ratio {statistics.median(ratios):.1f}", flush=True)


if __name__ == "__main__":
    main()
