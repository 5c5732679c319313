#!/usr/bin/env python3
"""What `dslaunch check` lets through a run does not refuse, and what it refuses no run trains: a table of configurations goes
through both. A refusal has to name its key, and leaves no run directory.

usage: check_and_run.py FOLDER_OF_PROGRAMS
"""
import os
import pathlib
import subprocess
import sys
import tempfile

BASE = """{
"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256},
"data": {"train": ["corpus.txt"], "tokenizer": "byte"},
"train": {"steps": 2, "save_at_end": false}, "train_batch_size": 8,
"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
"""
NVME = 'zero_optimization={"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "%s"}}'
PARAM = ('zero_optimization={"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "swap", '
         '"max_in_cpu": 0, "buffer_size": %s}, "stage3_param_persistence_threshold": 0}')
RULES = ('tensor_parallel={"autotp_size": 2, "partition_config": {"layer_specs": [{"patterns": ["%s"], '
         '"partition_type": "row"}]}}')
GROUPS = 'optimizer.param_groups=[{"match": ["%s"], "weight_decay": 0}]'

# Overrides, ranks, and a word that a refusal has to say; None: it is trained.
TABLE = [
    ([], 1, None),
    ([], 2, None),
    (["zero_optimization.stage=3", "zero_optimization.sub_group_size=1", "zero_optimization.reduce_bucket_size=1",
      "zero_optimization.allgather_bucket_size=1"], 2, None),
    (["pipeline.stages=2", "pipeline.partition=type:Block"], 2, None),
    ([NVME % "swap"], 1, None),
    (["aio.block_size=1000"], 1, None),  # nobody reads it
    ([GROUPS % "*bias"], 1, None),
    # What is missing.
    (["~optimizer"], 1, "optimizer"),
    (["~model"], 1, "model"),
    (["~data"], 1, "data.train"),
    (["~train.steps"], 1, "train.steps"),
    (["~train_batch_size"], 1, "train_batch_size"),
    (["train_batch_size=auto"], 1, "train_batch_size"),
    (['scheduler={"type": "WarmupDecayLR"}', "~train.steps", "+train.epochs=1"], 1, "total_num_steps"),
    # Sizes that do not go together.
    (["train_batch_size=7"], 2, "7 is no multiple of 2 data-parallel ranks"),
    (["+train_micro_batch_size_per_gpu=3"], 1, "train_micro_batch_size_per_gpu 3"),
    (["train_batch_size=131072", "+gradient_accumulation_steps=131072"], 1, "gradient_accumulation_steps"),
    (["train_batch_size=100000000"], 1, "train_micro_batch_size_per_gpu"),
    (["train.steps=4000000000000000"], 1, "train.steps"),
    (["~train.steps", "+train.epochs=1e300"], 1, "train.epochs"),
    (['optimizer={"type": "MuAdam"}'], 1, "base_shapes"),
    (['tensor_parallel={"autotp_size": 2, "sequence_parallel": true}', "data.sequence_length=15", "train_batch_size=1"],
     2, "tensor_parallel.sequence_parallel"),
    (["data.sequence_length=17"], 1, "data.sequence_length"),
    (["model.vocab_size=100"], 1, "data.tokenizer"),
    (["pipeline.stages=5"], 5, "pipeline"),
    (["tensor_parallel.autotp_size=3"], 3, "autotp_size"),
    (["sequence_parallel_size=3"], 3, "sequence_parallel_size"),
    (["zero_optimization.stage=3", "zero_optimization.mics_shard_size=3"], 2, "mics_shard_size"),
    (["memory.device_limit=1kB"], 1, "memory.device_limit"),
    (["optimizer.params.lr=0", 'optimizer.param_groups=[{"match": ["*"], "lr": 1}]'], 1, "param_groups[0].lr"),
    # Patterns.
    ([GROUPS % "nothing*"], 1, "param_groups[0]"),
    (["pipeline.stages=2", "pipeline.partition=type:Nothing"], 2, "pipeline.partition"),
    (["pipeline.stages=2", "pipeline.partition=type:["], 2, "pipeline.partition"),
    (['activation_checkpointing={"enabled": true, "modules": ["a("]}'], 1, "activation_checkpointing.modules"),
    ([RULES % "a("], 2, "partition_config"),
    ([RULES % ".*c_attn"], 2, "layer_specs[0]"),
    # Disks.
    ([NVME % "corpus.txt"], 1, "corpus.txt"),
    ([NVME % "swap", "aio.block_size=1000"], 1, "aio.block_size"),
    ([NVME % "swap", "aio.queue_depth=100000"], 1, "aio.queue_depth"),
    ([NVME % "swap", "aio.intra_op_parallelism=5000"], 1, "aio.thread_count"),
    ([PARAM % "10"], 1, "offload_param.buffer_size"),
    # Files.
    (["data.train=gone.txt"], 1, "gone.txt"),
    (["data.train=empty.txt"], 1, "empty.txt"),
    (["data.train=hf://datasets/wikitext"], 1, "is a URL"),
    (["~model", "model=some-org/Some-7B"], 1, "hf download some-org/Some-7B"),
    (["data.tokenizer=gpt2"], 1, "hf download gpt2"),
    (["data.train=~nobody-of-this-name/x"], 1, "no user has"),
]

# What a run is refused for that is started on this machine, and elsewhere may not be: check has a note of it.
HERE = [
    ([NVME % "not-there"], 1, "not-there"),
    (["+communication.backend=nccl"], 1, "nccl is for tensors of GPUs"),
    (["+communication.backend=mpi"], 2, "mpi"),
]


def main(binaries):
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)
    pathlib.Path("train.json").write_text(BASE)
    pathlib.Path("corpus.txt").write_text("in the beginning there was a corpus of a few words\n" * 40)
    pathlib.Path("empty.txt").write_text("")
    pathlib.Path("swap").mkdir()
    failures = []

    def dslaunch(*words):
        done = subprocess.run([f"{binaries}/dslaunch", *words], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    for number, (overrides, ranks, word) in enumerate(TABLE + HERE):
        passes = word is None or number >= len(TABLE)
        words = ["train.json", "--num-ranks", str(ranks), *overrides]
        checked, said = dslaunch("check", *words)
        code, told = dslaunch(*words, "--run-dir", f"run-{number}")
        wrong = []
        if (checked == 0) != passes:
            wrong.append(f"check ended with {checked}")
        if (code == 0) != (word is None):
            wrong.append(f"the run ended with {code}")
        for who, text in (("check", said), ("the run", told)):
            if word is not None and word not in text:
                wrong.append(f"{who} does not say {word}")
            if "bug in" in text:
                wrong.append(f"{who} takes it for a fault of its own")
        if word is not None and os.path.exists(f"run-{number}"):
            wrong.append("the run left a directory")
        if wrong:
            failures.append(f"{' '.join(words)}: {'; '.join(wrong)}\n--- check\n{said}--- run\n{told}")
    # Where the ranks are not told, sizes count that fit none.
    for overrides, code in ((["train_batch_size=6"], 0), (["+train_micro_batch_size_per_gpu=3"], 78),
                            (["pipeline.stages=2"], 0), (["pipeline.stages=5"], 78)):
        checked, said = dslaunch("check", "train.json", *overrides)
        if checked != code:
            failures.append(f"check {' '.join(overrides)} ended with {checked}, expected {code}\n{said}")
    for failure in failures:
        print(f"FAILED: {failure}")
    os.chdir("/")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
