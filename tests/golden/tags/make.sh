#!/usr/bin/env bash
# Makes what tests/system/checkpoints/released_tags.sh reads: the tag of a release, of two ranks, and the losses of the
# steps behind it. Run once, with the programs of that release; the folder is committed and stays.
#
# usage: tests/golden/tags/make.sh FOLDER_OF_PROGRAMS FOLDER      (tests/golden/tags/0.1.0)
set -euo pipefail
bin=$(realpath "$1")
out=$(realpath -m "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
seq 400 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 8, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 8}, "train": {"steps": 6, "save_every": 3},
 "train_batch_size": 4, "gradient_clipping": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 4}}}
JSON
"$bin/dslaunch" train.json --num-ranks 2 --run-dir run > /dev/null
mkdir "$out"
cp train.json corpus.txt "$out/"
cp -r run/checkpoints/global_step3 "$out/"
sed -n '4,6s/.*"loss": *\([^,}]*\).*/\1/p' run/metrics.jsonl > "$out/losses.txt"
"$bin/dslaunch" --version
du -sh "$out"
