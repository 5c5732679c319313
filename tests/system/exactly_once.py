"""An elastic job over worlds of 4, 3, 6, 4 and 1 ranks, which are other meshes, too (stages, shared layers, a ring),
stopped between them and with a rank killed in each: every step takes the same samples as in an undisturbed run and has
its loss, every sample is used exactly once per pass. On a device, where steps are slow, it is fewer of them over 3, 1
and 2 ranks.

usage: exactly_once.py BIN_DIR [--device DEVICE]
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

BATCH = 12
# Ranks, what the command says of their mesh, and until which step.
CPU_WORLDS = ((4, ("+pipeline.stages=2",), 9), (3, (), 19), (6, ("+tensor_parallel.autotp_size=2",), 29),
              (4, ("+sequence_parallel_size=2", "+sequence_parallel_attention=ring"), 36), (1, (), 44))
DEVICE_WORLDS = ((3, (), 40), (1, (), 80), (2, (), 120))
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256,
              "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"save_every": 4}, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 1},
    "elasticity": {"enabled": True, "version": 0.1, "max_train_batch_size": BATCH,
                   "micro_batch_sizes": [1, 2, 3, 4]},
}


def launch(args, folder, run, ranks, steps, mesh=()):
    return subprocess.Popen(
        [args.binaries / "dslaunch", "train.json", f"train.steps={steps}", "--run-dir", run, "--num-ranks", str(ranks),
         "--num-threads", "1", "--device", args.device, "--audit-samples", *mesh], cwd=folder,
        stdout=subprocess.DEVNULL)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def wait_for_step(process, folder, step):
    while process.poll() is None and len(lines(folder / "elastic/metrics.jsonl")) < step:
        time.sleep(0.005)


def children(process, count):
    """Its ranks, once all are there: the run before may have come so far that none is waited for."""
    place = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(found := place.read_text().split()) < count:
        assert process.poll() is None, "the run ended before its ranks were there"
        time.sleep(0.005)
    return [int(child) for child in found]


def samples_by_step(run_dir):
    """For each step, the samples of its last epoch, sorted."""
    epochs = {}
    for path in (run_dir / "logs").glob("samples-rank-*.jsonl"):
        for line in lines(path):
            entry = json.loads(line)
            epochs.setdefault(entry["step"], {}).setdefault(entry["generation"], []).extend(entry["samples"])
    return {step: sorted(by_epoch[max(by_epoch)]) for step, by_epoch in epochs.items()}


def losses(run_dir):
    return [json.loads(line)["loss"] for line in lines(run_dir / "metrics.jsonl")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--device", default="cpu", help="where ranks compute")
    args = parser.parse_args()
    worlds = CPU_WORLDS if args.device == "cpu" else DEVICE_WORLDS
    steps = worlds[-1][-1]
    os.environ.pop("DSLAUNCH_RANKD", None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train.json").write_text(json.dumps(CONFIG))
        (folder / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(5000)))
        assert launch(args, folder, "undisturbed", 2, steps).wait() == 0
        for ranks, mesh, until in worlds:
            process = launch(args, folder, "elastic", ranks, steps, mesh)
            wait_for_step(process, folder, until - 4)
            os.kill(children(process, ranks)[ranks // 2], signal.SIGKILL)
            wait_for_step(process, folder, until)
            if until < steps:
                process.send_signal(signal.SIGTERM)
            code = process.wait()
            assert code in (0, 75), f"{ranks} ranks: exit code {code}"
        expected, found = samples_by_step(folder / "undisturbed"), samples_by_step(folder / "elastic")
        assert sorted(found) == list(range(1, steps + 1)), "steps are missing"
        assert all(len(samples) == BATCH for samples in found.values()), "a step has not its whole batch"
        assert found == expected, "other samples"
        used = [sample for step in found.values() for sample in step]
        assert len(used) == len(set(used)), "a sample was used twice"
        pairs = list(zip(losses(folder / "undisturbed"), losses(folder / "elastic"), strict=True))
        assert all(abs(one / other - 1) < 1e-4 for one, other in pairs), pairs
        report = json.loads((folder / "elastic/report.json").read_text())
        assert report["steps"] == steps and report["exit_code"] == 0, report
        print(f"ok: {steps} steps, {len(used)} samples, worlds of {', '.join(str(ranks) for ranks, *_ in worlds)} ranks, "
              f"generation {report['generation']}")


if __name__ == "__main__":
    main()
