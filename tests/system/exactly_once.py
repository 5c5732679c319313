"""An elastic job over worlds of 4, 3, 6 and 1 ranks, stopped between them and with a rank killed in each: every
step takes the same samples as in an undisturbed run, every sample is used exactly once per pass.

usage: exactly_once.py BIN_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

STEPS, BATCH = 40, 12
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 16, "n_positions": 16, "vocab_size": 256,
              "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"steps": STEPS, "save_every": 4}, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 1},
    "elasticity": {"enabled": True, "version": 0.1, "max_train_batch_size": BATCH,
                   "micro_batch_sizes": [1, 2, 3, 4]},
}


def launch(binaries, folder, run, ranks):
    return subprocess.Popen(
        [binaries / "dslaunch", "train.json", "--run-dir", run, "--num-ranks", str(ranks), "--num-threads", "1",
         "--audit-samples"], cwd=folder, stdout=subprocess.DEVNULL)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def wait_for_step(process, folder, step):
    while process.poll() is None and len(lines(folder / "elastic/metrics.jsonl")) < step:
        time.sleep(0.005)


def samples_by_step(run_dir):
    """For each step, the samples of its last epoch, sorted."""
    epochs = {}
    for path in (run_dir / "logs").glob("samples-rank-*.jsonl"):
        for line in lines(path):
            entry = json.loads(line)
            epochs.setdefault(entry["step"], {}).setdefault(entry["epoch"], []).extend(entry["samples"])
    return {step: sorted(by_epoch[max(by_epoch)]) for step, by_epoch in epochs.items()}


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    os.environ.pop("DSLAUNCH_RANKD", None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train.json").write_text(json.dumps(CONFIG))
        (folder / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(5000)))
        assert launch(binaries, folder, "undisturbed", 2).wait() == 0
        for ranks, until in ((4, 9), (3, 19), (6, 29), (1, STEPS)):
            process = launch(binaries, folder, "elastic", ranks)
            wait_for_step(process, folder, until - 4)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[ranks // 2]), signal.SIGKILL)
            wait_for_step(process, folder, until)
            if until < STEPS:
                process.send_signal(signal.SIGTERM)
            code = process.wait()
            assert code in (0, 75), f"{ranks} ranks: exit code {code}"
        expected, found = samples_by_step(folder / "undisturbed"), samples_by_step(folder / "elastic")
        assert sorted(found) == list(range(1, STEPS + 1)), "steps are missing"
        assert all(len(samples) == BATCH for samples in found.values()), "a step has not its whole batch"
        assert found == expected, "other samples"
        used = [sample for step in found.values() for sample in step]
        assert len(used) == len(set(used)), "a sample was used twice"
        report = json.loads((folder / "elastic/report.json").read_text())
        assert report["steps"] == STEPS and report["exit_code"] == 0, report
        print(f"ok: {STEPS} steps, {len(used)} samples, worlds of 4, 3, 6 and 1 ranks, epoch {report['epoch']}")


if __name__ == "__main__":
    main()
