"""The longest sequence that fits a rank's memory, by the plan (which is what is measured, within 2 %): with everything kept,
with blocks run again, with MLPs in tiles as well, with what is kept on the host, and with sequences shared by ranks.

usage: longest_sequence.py BIN_DIR [--limit BYTES] [--ranks N] [--layers N] [--width N]

One sample of a Llama (weights, gradients and Adam's state in fp32 count, too). What is kept grows with the layers and what one
layer needs does not, so the deeper the model, the more is gained. Goal: 16 times the plain length in 4 GiB.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile


def llama(layers, width):
    return {"family": "llama", "num_hidden_layers": layers, "num_attention_heads": 8, "hidden_size": width,
            "intermediate_size": 4 * width, "max_position_embeddings": 1 << 24, "vocab_size": 4096, "tie_word_embeddings": True}


AGAIN = ["+activation_checkpointing.enabled=true"]
TILES = [*AGAIN, "+activation_checkpointing.mlp_tiles=64"]
HOST = [*TILES, "+activation_checkpointing.cpu_checkpointing=true"]


def peak(args, folder, length, ranks, words):
    """Bytes of the rank that needs most on its device."""
    config = {"model": llama(args.layers, args.width), "data": {"train": ["text"], "tokenizer": "byte", "sequence_length": length},
              "train": {"steps": 1}, "train_batch_size": 1, "optimizer": {"type": "AdamW"}}
    (folder / "train.json").write_text(json.dumps(config))
    done = subprocess.run([str(args.bin_dir / "dslaunch"), "plan", "train.json", "--num-ranks", str(ranks), "--json", *words],
                          cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return max(rank["device_bytes_peak"] for rank in json.loads(done.stdout)["ranks"])


def longest(args, folder, ranks, words):
    step = 64 * ranks
    low, high = 1, 2
    while peak(args, folder, high * step, ranks, words) <= args.limit:
        low, high = high, 2 * high
    while high - low > max(1, low // 32):
        middle = (low + high) // 2
        low, high = (middle, high) if peak(args, folder, middle * step, ranks, words) <= args.limit else (low, middle)
    return low * step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=4 << 30)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()
    args.bin_dir = args.bin_dir.resolve()
    shared = [*HOST, f"+sequence_parallel_size={args.ranks}"]
    plain = None
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text").write_text("In the beginning\n" * 4096)
        for name, ranks, words in (("plain", 1, []), ("blocks run again", 1, AGAIN), ("and MLPs in 64 tiles", 1, TILES),
                                   ("and what is kept on the host", 1, HOST), (f"and {args.ranks} ranks", args.ranks, shared)):
            length = longest(args, folder, ranks, words)
            plain = plain or length
            print(f"{name:30} {length:9} tokens, {length / plain:6.1f} times", flush=True)


if __name__ == "__main__":
    main()
