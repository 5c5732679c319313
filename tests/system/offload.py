"""Real processes with optimizer state on the host and in swap files: the weights of the run without, to the bit;
ranks killed at every place of the swapping and offloading, and a disk that fails; nothing left below nvme_path;
limits of memory and disks that are too small end a job before its first step.

usage: offload.py BIN_DIR

Ends with 0 if all held, 1 with what did not, 77 where the build has no failpoints.
"""
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

STEPS = 6
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256,
              "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"steps": STEPS, "save_every": 2, "keep_checkpoints": 2},
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 3},
}
HOST = {"device": "cpu"}
# Killed there, one epoch after the other; each epoch loads what was committed and goes on.
PLACES = ["swap.folder_made", "swap.created", "swap.header_written", "swap.reserved", "swap.put_begun",
          "swap.put_on_its_way", "offload.gradient_stored", "offload.gradient_loaded", "offload.part_updated",
          "swap.got"]


class Job:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        self.disk = folder / "disk"
        self.disk.mkdir()
        (folder / "corpus.txt").write_bytes(bytes(range(32, 127)) * 40)
        self.runs = 0

    def nvme(self, **more):
        return {"device": "nvme", "nvme_path": str(self.disk), "buffer_count": 3, "pipeline_read": True, **more}

    def run(self, offload, failpoints="", limit=None, **sections):
        """Exit code, all that was said, and the weights' digest where there are some."""
        self.runs += 1
        run_dir = self.folder / f"run-{self.runs}"
        config = json.loads(json.dumps(CONFIG)) | sections
        config["zero_optimization"]["sub_group_size"] = 1024
        if offload:
            config["zero_optimization"]["offload_optimizer"] = offload
        (self.folder / "train.json").write_text(json.dumps(config))
        command = [str(self.binaries / "dslaunch"), "train.json", "--num-ranks", "2", "--num-threads", "1",
                   "--run-dir", str(run_dir), "--max-restarts", "40"]

        def limited():
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "DSL_FAILPOINTS": failpoints}, preexec_fn=limited)
        weights = run_dir / "final/model.safetensors"
        said = done.stdout + done.stderr
        steps = (run_dir / "metrics.jsonl").read_text().count("\n") if (run_dir / "metrics.jsonl").exists() else 0
        return done.returncode, said, hashlib.sha256(weights.read_bytes()).hexdigest() if weights.exists() else None, \
            steps


def check(what, holds, told=""):
    print(("ok    " if holds else "FAILS ") + what + ("" if holds else f"\n{told[-3000:]}"))
    return holds


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    listed = subprocess.run([str(binaries / "rankd"), "--list-failpoints"], capture_output=True, text=True)
    if listed.returncode != 0 or "offload.part_updated" not in listed.stdout:
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ds-offload-"))
    job, good = Job(binaries, folder), []
    code, said, plain, _ = job.run(None)
    good.append(check("the run without offload ends well", code == 0 and plain, said))
    for name, offload in [("the host", HOST), ("half on the host", {"device": "cpu", "ratio": 0.5}),
                          ("a swap file", job.nvme()), ("a swap file in part", job.nvme(ratio=0.3))]:
        code, said, digest, _ = job.run(offload)
        good.append(check(f"with state on {name} the weights are the same", code == 0 and digest == plain, said))
    places = "; ".join(f"{place}@rank{epoch % 2}@epoch{epoch}=1*off->1*kill->off" if place.startswith(
        ("swap.put", "swap.got", "offload")) else f"{place}@rank{epoch % 2}@epoch{epoch}=1*kill->off"
                       for epoch, place in enumerate(PLACES, 1))
    code, said, digest, _ = job.run(job.nvme(pipeline_write=True), places)
    good.append(check("ranks killed at every place: the weights are the same", code == 0 and digest == plain, said))
    good.append(check("nothing is left below nvme_path", not list(job.disk.iterdir()), str(list(job.disk.rglob("*")))))
    code, said, _, steps = job.run(HOST, memory={"host_limit": "10kB"})
    good.append(check("a limit of the host's memory ends it with 78 before the first step",
                      code == 78 and steps == 0 and "memory.host_limit" in said, f"{code} {steps} {said}"))
    code, said, _, steps = job.run(job.nvme(), limit=64 << 10)
    good.append(check("a swap file that has no room ends it with 74 before the first step",
                      code == 74 and steps == 0 and "swap file" in said, f"{code} {steps} {said}"))
    good.append(check("and leaves no file", not list(job.disk.rglob("*.swap")), str(list(job.disk.rglob("*")))))
    shutil.rmtree(folder)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
