"""A small job of our own, for scripts that compare its speed with others'."""
import json
import statistics
import subprocess

NOT_TIMED = 2  # steps before


def write_job(folder, config):
    """`config` in train.json, beside the text that it trains on."""
    (folder / "train.json").write_text(json.dumps(config))
    (folder / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(10000)))


def tokens_per_s(bin_dir, folder, ranks, *words):
    """The median over the steps of the job in `folder`, on ranks of one thread."""
    run = folder / "run"
    subprocess.run(["rm", "-rf", run], check=True)
    subprocess.run([bin_dir.resolve() / "dslaunch", "train.json", "--num-ranks", str(ranks), "--num-threads", "1",
                    "--run-dir", run, *words], cwd=folder, check=True, capture_output=True)
    steps = [json.loads(line)["tokens_per_s"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(steps[NOT_TIMED:])
