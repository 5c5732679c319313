"""The example job (examples/kjv) in other numbers: fp16, amp, ZeRO++'s quantized traffic, 1-bit Adam, beside fp32 AdamW.

usage: convergence.py BIN_DIR [--seeds N,N] [--steps N] [--only NAME,NAME] [--ranks N]

Every job is the whole of the example unless --steps says less, some minutes on two cores. Printed is the loss on held-out
text after each evaluation and, over the seeds, the quotient of the last beside plain training's (goal: at most 1.01; for 1-bit
Adam after its freeze step). `./bootstrap train` has prepared the text.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/kjv/train.json"
STAGE3 = ["zero_optimization.stage=3", "+zero_optimization.stage3_param_persistence_threshold=0"]
VARIANTS = {
    "plain": [],
    "qwz+qgz": [*STAGE3, "+zero_optimization.zero_quantized_weights=true", "+zero_optimization.zero_quantized_gradients=true"],
    "fp16": ["+fp16.enabled=true"],
    "amp O1": ["zero_optimization.stage=0", "+amp.enabled=true", "+amp.opt_level=O1"],
    # Bytes that the text does not have hardly move their rows, which a frozen variance would not bound.
    "1-bit Adam": ["zero_optimization.stage=0", "optimizer.type=OneBitAdam", "+optimizer.params.freeze_step=300",
                   '+optimizer.param_groups=[{"match": ["model.embed_tokens.weight"], "non_freeze": true}]'],
}


def losses(args, words, seed, folder):
    """{step: loss on held-out text} of one job."""
    command = [args.bin_dir / "dslaunch", EXAMPLE, "--num-ranks", str(args.ranks), "--run-dir", folder, f"train.seed={seed}",
               *words]
    if args.steps:
        command += [f"train.steps={args.steps}", f"scheduler.params.total_num_steps={args.steps}",
                    f"train.eval_every={args.steps // 3}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          cwd=folder.parent)
    if done.returncode:
        raise SystemExit(done.stderr)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--seeds", default="1234")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    args.bin_dir = args.bin_dir.resolve()
    plain, quotients = {}, {}
    for seed in args.seeds.split(","):
        for name in ["plain", *(word for word in args.only.split(",") if word != "plain")]:
            with tempfile.TemporaryDirectory() as scratch:
                got = losses(args, VARIANTS[name], seed, pathlib.Path(scratch) / "run")
            if name == "plain":
                plain[seed] = got
            last = max(got)
            quotients.setdefault(name, []).append(got[last] / plain[seed][last])
            print(f"seed {seed} {name:12}", *(f"{step}: {loss:.4f}" for step, loss in got.items()),
                  f"quotient {quotients[name][-1]:.4f}", flush=True)
    for name, all_seeds in quotients.items():
        print(f"{name:12} median quotient {statistics.median(all_seeds):.4f} (goal 1.01)")


if __name__ == "__main__":
    main()
