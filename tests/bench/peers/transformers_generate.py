"""Generation by Hugging Face's transformers, as the peer of generate_vs_transformers.py.

usage: transformers_generate.py make FOLDER [--layers N ...]   writes a GPT-2 folder with random weights
       transformers_generate.py serve FOLDER --threads N [--compile] [--dtype D]

`serve` loads and warms up, says "ready", then for each line of standard input ({"ids": [...], "tokens": N}) generates
greedily with a cache and answers {"ids": [...], "tokens_per_s": R, "cpu_s_per_token": S}; asleep otherwise.
"""
import argparse
import json
import os
import pathlib
import sys
import time


def byte_characters():
    """GPT-2's printable character of every byte."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = iter(range(256, 512))
    return [chr(byte if byte in printable else next(rest)) for byte in range(256)]


def tokenizer_json(vocabulary):
    """Bytes are their own ids; the others are there, so that any id can be drawn, but no text has them."""
    vocab = {character: byte for byte, character in enumerate(byte_characters())}
    vocab.update({f"t{number}": number for number in range(256, vocabulary)})
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def make(args):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=args.vocabulary, n_layer=args.layers, n_head=args.heads,
                                       n_embd=args.width, initializer_range=0.05))
    model.to(getattr(torch, args.dtype)).save_pretrained(args.folder)
    for name in ("config.json", "generation_config.json"):  # texts end when enough tokens are made
        path = pathlib.Path(args.folder) / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": None}))
    (pathlib.Path(args.folder) / "tokenizer.json").write_text(json.dumps(tokenizer_json(args.vocabulary)))


def serve(args):
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    model = AutoModelForCausalLM.from_pretrained(args.folder, dtype="auto").eval()
    settings = {"do_sample": False, "use_cache": True, "eos_token_id": None, "pad_token_id": 0}
    if args.compile:
        settings["cache_implementation"] = "static"
        model.forward = torch.compile(model.forward, dynamic=False)

    def generate(ids, tokens):
        with torch.inference_mode():
            given = torch.tensor([ids])
            start, start_cpu = time.perf_counter(), time.process_time()
            out = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=tokens,
                                 min_new_tokens=tokens, **settings)
            seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        return {"ids": out[0, len(ids):].tolist(), "tokens_per_s": tokens / seconds, "cpu_s_per_token": cpu / tokens}

    warm = json.loads(args.warm_up)
    for _ in range(2):
        generate(warm["ids"], warm["tokens"])
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps(generate(wanted["ids"], wanted["tokens"])), flush=True)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    maker = verbs.add_parser("make")
    maker.add_argument("folder")
    maker.add_argument("--dtype", default="float32")
    maker.add_argument("--layers", type=int, default=12)
    maker.add_argument("--heads", type=int, default=12)
    maker.add_argument("--width", type=int, default=768)
    maker.add_argument("--vocabulary", type=int, default=50257)
    maker.set_defaults(run=make)
    server = verbs.add_parser("serve")
    server.add_argument("folder")
    server.add_argument("--threads", type=int, default=2)
    server.add_argument("--compile", action="store_true")
    server.add_argument("--warm-up", default='{"ids": [1, 2, 3], "tokens": 8}')
    server.set_defaults(run=serve)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
