"""Training that is lost, in real processes: whatever the number format, the ZeRO stage, the mesh and where state lies, it
ends with 77, exports no model, and leaves the checkpoints that were made before, all of whose numbers are finite.

usage: lost_numbers.py BIN_DIR
"""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

CONFIG = {
    "model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "vocab_size": 256,
              "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"steps": 12, "save_every": 4, "keep_checkpoints": 2}, "train_batch_size": 8, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.1}},
}
FP16 = ["+fp16.enabled=true"]
FIXED = [*FP16, "+fp16.loss_scale=128"]
STAGE = "+zero_optimization.stage="
CPU_STATE = [f"{STAGE}2", "+zero_optimization.offload_optimizer.device=cpu"]
PIPE = ["+pipeline.stages=2", "gradient_accumulation_steps=2", f"{STAGE}1"]


def amp(level, *more):
    return ["+amp.enabled=true", f"+amp.opt_level={level}", *more]


def launch(binaries, folder, *words, ranks=2):
    done = subprocess.run([binaries / "dslaunch", "train.json", "--num-ranks", str(ranks), "--num-threads", "1",
                           "--run-dir", "run", *words], cwd=folder, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    return done.returncode, done.stdout + done.stderr


def numbers_in(tag):
    """All fp32 numbers in the files of a tag."""
    for file in json.loads((tag / "manifest.json").read_text())["files"]:
        data = (tag / file["name"]).read_bytes()
        offset, size = struct.unpack("<QQ", data[-56:-40])
        for piece in json.loads(data[offset:offset + size])["pieces"]:
            if piece["dtype"] == "fp32":
                begin, end = piece["within"]
                yield from struct.unpack_from(f"<{end - begin}f", data, piece["offset"])


def tags_in(folder):
    return sorted((folder / "run/checkpoints").glob("global_step*"), key=lambda tag: int(tag.name[11:]))


def bad_tags(folder):
    return [tag.name for tag in tags_in(folder) if not all(math.isfinite(number) for number in numbers_in(tag))]


def lost_from_the_start(binaries, folder):
    """No step trains: 77, no model, no tag that is not finite."""
    too_large = ["+fp16.loss_scale=1099511627776"]
    cases = {f"a fixed scale that is too large, stage {stage}": ([*FP16, *too_large, f"{STAGE}{stage}"], "in a row at")
             for stage in range(4)}
    cases |= {
        "the same on one rank": ([*FP16, *too_large], "in a row at"),
        "the same with state on the host": ([*FP16, *too_large, *CPU_STATE], "in a row at"),
        "the same in stages": ([*FP16, *too_large, *PIPE], "in a row at"),
        "the same of amp O2": (amp("O2", "+amp.loss_scale=1099511627776"), "in a row at"),
        "a least scale that is too large, stage 0": ([*FP16, "+fp16.initial_scale_power=40",
                                                      "+fp16.min_loss_scale=1099511627776"], "at the minimum scale"),
        "too few steps to come down": ([*FP16, "+fp16.initial_scale_power=60", f"{STAGE}1"],
                                       "none of the 12 steps has changed the weights"),
    }
    for what, (words, said) in cases.items():
        shutil.rmtree(folder / "run", ignore_errors=True)
        code, out = launch(binaries, folder, *words, ranks=1 if "one rank" in what else 2)
        yield code == 77 and said in out, f"{what}: exit code {code}: {out[-400:]}"
        yield not (folder / "run/final").exists() and not tags_in(folder), f"{what}: something is left"


def lost_at_once(binaries, folder):
    """A rate that ruins the weights in the first step: 77, and never a tag with them."""
    ruin = ["optimizer.params.lr=1e38", "train.save_every=1"]
    for what, words in {
        "fp32": [], "bf16": ["+bf16.enabled=true"], "fp16": FP16, "fp16, stage 3": [*FP16, f"{STAGE}3"],
        "fp16, a fixed scale": FIXED, "fp16, state on the host": [*FP16, *CPU_STATE], "fp16 in stages": [*FP16, *PIPE],
        "amp O1": amp("O1"), "amp O2": amp("O2"), "amp O3": amp("O3"), "fp32, kept in memory": ["train.save_every=0",
                                                                                           "+train.save_in_memory_every=1"],
        "fp32, each host on its own disk": ["+checkpoint.use_node_local_storage=true"],
    }.items():
        shutil.rmtree(folder / "run", ignore_errors=True)
        code, out = launch(binaries, folder, *ruin, *words)
        yield code == 77, f"ruined, {what}: exit code {code}: {out[-400:]}"
        yield not (folder / "run/final").exists(), f"ruined, {what}: a model was exported"
        yield not bad_tags(folder), f"ruined, {what}: {bad_tags(folder)} hold bad numbers"


def lost_later(binaries, folder):
    """The same in a run that has good checkpoints: they stay, and the run goes on from them with another rate."""
    for what, words in {"a fixed scale": FIXED, "a dynamic scale": FP16, "bf16": ["+bf16.enabled=true"],
                        "fp32": []}.items():
        shutil.rmtree(folder / "run", ignore_errors=True)
        code, out = launch(binaries, folder, *words)
        yield code == 0, f"{what}: exit code {code}: {out[-400:]}"
        model = (folder / "run/final/model.safetensors").read_bytes()
        more = ["train.steps=40", "train.save_every=1"]
        code, out = launch(binaries, folder, *words, *more, "optimizer.params.lr=1e38")
        yield code == 77, f"lost after step 12, {what}: exit code {code}: {out[-400:]}"
        yield "global_step12" in [tag.name for tag in tags_in(folder)], f"lost after step 12, {what}: its tag is gone"
        yield not bad_tags(folder), f"lost after step 12, {what}: {bad_tags(folder)} hold bad numbers"
        yield (folder / "run/final/model.safetensors").read_bytes() == model, f"{what}: the model was replaced"
        code, out = launch(binaries, folder, *words, *more, "--resume", "global_step12")
        yield code == 0, f"from step 12 on, {what}: exit code {code}: {out[-400:]}"
        yield "resumed step=12 from=global_step12" in out, f"{what}: it did not go back"


def scale_walks_down(binaries, folder):
    """Saves that are due while a dynamic scale comes down push out no good tag."""
    code, out = launch(binaries, folder)  # whose checkpoints have no scale, so that it begins with the configured one
    yield code == 0, f"exit code {code}: {out[-400:]}"
    before = [tag.name for tag in tags_in(folder)]
    restless = [*FP16, "+fp16.initial_scale_power=34", "train.save_every=1"]
    code, out = launch(binaries, folder, *restless, "train.steps=18")
    steps = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    yield code == 0, f"exit code {code}: {out[-400:]}"
    yield steps[-1].get("skipped_steps", 0) >= 4, f"{steps[-1]}: too few steps are skipped for this test"
    names = [tag.name for tag in tags_in(folder)]
    skipped = "\"skipped\":1" in (folder / "run/checkpoints/global_step18/manifest.json").read_text()
    yield not skipped or names == before + ["global_step18"], f"{names}: a skipped step has pushed {before} out"


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    os.environ.pop("DSLAUNCH_RANKD", None)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dslaunch-lost-"))
    failed = checks = 0
    try:
        (folder / "train.json").write_text(json.dumps(CONFIG))
        (folder / "corpus.txt").write_text("".join(f"{i}\n" for i in range(4000)))
        for part in (lost_from_the_start, lost_at_once, lost_later, scale_walks_down):
            shutil.rmtree(folder / "run", ignore_errors=True)
            for held, what in part(binaries, folder):
                checks += 1
                if not held:
                    failed += 1
                    print(f"FAILED: {part.__name__}: {what}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{checks} checks, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
