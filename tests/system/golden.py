"""Compares a run directory with a golden PyTorch run.

usage: golden.py GOLDEN_DIR RUN_DIR [REFERENCE_RUN_DIR]

Losses, gradient norms and learning rates come from RUN_DIR/metrics.jsonl, weights from RUN_DIR/final.
Tolerances are those of the golden folder's README. With REFERENCE_RUN_DIR the final weights must also be
equal to that run's, byte by byte. Exit status 1 with one line per difference.
"""
import json
import pathlib
import struct
import sys


def safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    data = raw[8 + size:]
    return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()
            if name != "__metadata__"}


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def differences(golden_dir, run_dir):
    golden = json.loads((golden_dir / "golden.json").read_text())
    bf16 = golden["case"].get("dtype") == "bf16"
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    if len(lines) != len(golden["losses"]):
        yield f"{len(lines)} steps, expected {len(golden['losses'])}"
    for step, (line, loss, norm, lr) in enumerate(
            zip(lines, golden["losses"], golden["grad_norms"], golden["lrs"]), 1):
        allowed = 1e-2 if bf16 else (1e-5 if step <= 10 else 1e-4)
        if abs(line["loss"] - loss) > allowed * abs(loss):
            yield f"step {step}: loss {line['loss']}, expected {loss}"
        if not bf16 and abs(line["grad_norm"] - norm) > 1e-3 * abs(norm):
            yield f"step {step}: gradient norm {line['grad_norm']}, expected {norm}"
        if abs(line["lr"] - lr) > 1e-6 * abs(lr) + 1e-12:
            yield f"step {step}: lr {line['lr']}, expected {lr}"
    if bf16:
        return
    ours = safetensors(run_dir / "final" / "model.safetensors")
    theirs = safetensors(golden_dir / "final.safetensors")
    for name, raw in theirs.items():
        if name not in ours:
            yield f"{name}: not in the final model"
            continue
        worst = max(abs(a - b) for a, b in zip(floats(ours[name]), floats(raw)))
        if worst > 1e-3:
            yield f"{name}: differs by {worst}"


def main():
    golden_dir, run_dir = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = list(differences(golden_dir, run_dir))
    if len(sys.argv) > 3:
        ours = safetensors(run_dir / "final" / "model.safetensors")
        reference = safetensors(pathlib.Path(sys.argv[3]) / "final" / "model.safetensors")
        if ours != reference:
            found.append(f"final weights are not those of {sys.argv[3]} to the bit")
    print("\n".join(found) or f"golden: {run_dir.name} meets {golden_dir.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
