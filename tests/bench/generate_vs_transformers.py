"""Speed of `dslaunch generate` against Hugging Face's transformers on the GPT-2 124M shape, interleaved.

usage: generate_vs_transformers.py BIN_DIR --python PYTHON [--folder FOLDER] [--dtypes float32,bfloat16]
                                   [--rounds N] [--threads N] [--tokens N] [--prompt-length N] [--compile]

PYTHON must have torch and transformers. Both read one folder with random weights, which is made if it is not there,
and continue one prompt greedily with a cache; the texts must be equal in fp32 (in bf16 they part at the first two
logits that round alike, and where is printed). In each round both generate once, one after the other; printed are the
medians over the rounds of tokens per second (the prompt's time included, loading not) and of processor time per token
(ours without that of loading), and of the ratios within a round. transformers is loaded and warmed up once and asleep
while the other one runs; of its variants (eager; compiled with a static cache, with --compile) the best counts in a
round. It waits for its threads passively, which is faster where the processors are shared.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
PEER = HERE / "peers" / "transformers_generate.py"


class Transformers:
    """A process that generates when it is asked; asleep otherwise."""

    def __init__(self, command, wanted):
        self.process = subprocess.Popen([*command, "--warm-up", wanted], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"})
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"not ready: {command}")
        self.wanted = wanted

    def generate(self):
        self.process.stdin.write(self.wanted + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def dslaunch(args, folder, prompt, tokens):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([args.bin_dir / "rankd", "generate", folder, "--prompt", prompt, "--temperature", "0",
                          "--max-tokens", str(tokens), "--num-threads", str(args.threads), "--json"],
                         check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(out) | {"cpu_s": after.ru_utime - before.ru_utime}  # the system's time is that of loading


def agreement(ours, theirs):
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), len(ours))
    return "texts equal" if ours == theirs else f"texts equal for {same} of {len(ours)} tokens"


def measure(args, dtype):
    folder = args.folder / dtype
    if not (folder / "model.safetensors").exists():
        subprocess.run([args.python, PEER, "make", folder, "--dtype", dtype], check=True, capture_output=True)
    prompt = ("In the beginning God created the heaven and the earth. " * 40)[:args.prompt_length]
    wanted = json.dumps({"ids": list(prompt.encode()), "tokens": args.tokens})
    serve = [args.python, PEER, "serve", folder, "--threads", str(args.threads)]
    names = ["eager", "compiled"] if args.compile else ["eager"]
    ours, theirs, ratios = [], {name: [] for name in names}, []
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Transformers(serve + (["--compile"] if name == "compiled" else []), wanted))
                 for name in names]
        for _ in range(args.rounds):
            loading = dslaunch(args, folder, prompt, 1)["cpu_s"]
            ours.append(dslaunch(args, folder, prompt, args.tokens))
            ours[-1]["cpu_s_per_token"] = (ours[-1]["cpu_s"] - loading) / (args.tokens - 1)
            for name, peer in zip(names, peers):
                theirs[name].append(peer.generate())
            ratios.append(ours[-1]["tokens_per_s"] / max(theirs[name][-1]["tokens_per_s"] for name in names))
    same = agreement(ours[-1]["ids"], theirs["eager"][-1]["ids"])
    if dtype == "float32" and same != "texts equal":
        raise SystemExit(f"{dtype}: {same}")
    median = statistics.median
    cpu = median(one["cpu_s_per_token"] for one in ours)
    line = f"{dtype} {args.threads} threads, prompt {args.prompt_length}, {args.tokens} tokens: "
    line += f"{median(one['tokens_per_s'] for one in ours):.1f} tok/s ({1e3 * cpu:.1f} ms CPU a token)"
    for name in names:
        line += f", {name} {median(one['tokens_per_s'] for one in theirs[name]):.1f}"
        line += f" ({1e3 * median(one['cpu_s_per_token'] for one in theirs[name]):.1f} ms)"
    print(f"{line}, ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); {same}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/generate_bench"))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt-length", type=int, default=16)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    for dtype in args.dtypes.split(","):
        measure(args, dtype)


if __name__ == "__main__":
    main()
