"""Makes small Hugging Face folders in the current directory: gpt2/, llama/ and texts to train them on.

Imported besides by model_folder.sh for what it changes in them: config(), tensors(), write_tensors().
"""
import json
import pathlib
import random
import struct

MERGES = ["t h", "th e", "o f", "a n", "an d", "i s", "i n", "e r"]
VOCABULARY = 300  # of the models, padded; the tokenizer has 256 bytes, 8 merges and 1 special token


def byte_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def vocabulary():
    characters = byte_characters()
    tokens = [characters[b] for b in range(256)] + [merge.replace(" ", "") for merge in MERGES]
    return {token: i for i, token in enumerate(tokens)}


def tokenizer_json():
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    eos = {"id": 264, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [eos], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "vocab": vocabulary(), "merges": MERGES}}


GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1,
        "n_positions": 32, "vocab_size": VOCABULARY, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0,
        "bos_token_id": 264, "eos_token_id": 264, "pad_token_id": 263, "use_cache": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
         "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
         "vocab_size": VOCABULARY, "bos_token_id": 264, "eos_token_id": [264, 263], "dtype": "bfloat16",
         "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}


def gpt2_shapes():
    h = "transformer.h.0."
    shapes = {"transformer.wte.weight": [VOCABULARY, 32], "transformer.wpe.weight": [32, 32],
              h + "attn.c_attn.weight": [32, 96], h + "attn.c_attn.bias": [96],
              h + "attn.c_proj.weight": [32, 32], h + "attn.c_proj.bias": [32],
              h + "mlp.c_fc.weight": [32, 128], h + "mlp.c_fc.bias": [128],
              h + "mlp.c_proj.weight": [128, 32], h + "mlp.c_proj.bias": [32]}
    for norm in (h + "ln_1", h + "ln_2", "transformer.ln_f"):
        shapes |= {norm + ".weight": [32], norm + ".bias": [32]}
    return shapes


def llama_shapes():
    layer = "model.layers.0."
    return {"model.embed_tokens.weight": [VOCABULARY, 32], "lm_head.weight": [VOCABULARY, 32],
            layer + "self_attn.q_proj.weight": [32, 32], layer + "self_attn.k_proj.weight": [16, 32],
            layer + "self_attn.v_proj.weight": [16, 32], layer + "self_attn.o_proj.weight": [32, 32],
            layer + "mlp.gate_proj.weight": [48, 32], layer + "mlp.up_proj.weight": [48, 32],
            layer + "mlp.down_proj.weight": [32, 48], layer + "input_layernorm.weight": [32],
            layer + "post_attention_layernorm.weight": [32], "model.norm.weight": [32]}


def drawn(shapes, seed):
    """name -> (shape, bytes of fp32): small numbers, and ones where norms scale."""
    rng = random.Random(seed)
    out = {}
    for name, shape in shapes.items():
        numel = shape[0] * (shape[1] if len(shape) > 1 else 1)
        scale = "ln_" in name and name.endswith("weight") or "norm" in name
        values = [1.0 if scale else rng.gauss(0, 0.05) for _ in range(numel)]
        out[name] = (shape, struct.pack(f"<{numel}f", *values))
    return out


def write_tensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def header(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def dtypes(path):
    return {entry["dtype"] for name, entry in header(path).items() if name != "__metadata__"}


def change(path, **changes):
    """Rewrites keys of a JSON file; None removes one."""
    content = json.loads(pathlib.Path(path).read_text()) | changes
    pathlib.Path(path).write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def write_folder(name, config, tensors):
    folder = pathlib.Path(name)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_tensors(folder / "model.safetensors", tensors)
    texts = {
        "tokenizer.json": json.dumps(tokenizer_json()),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|end|>",
                                             "eos_token": "<|end|>", "model_max_length": 32}),
        "special_tokens_map.json": json.dumps({"bos_token": "<|end|>", "eos_token": "<|end|>"}),
        "added_tokens.json": json.dumps({"<|end|>": 264}),
        "vocab.json": json.dumps(vocabulary()),
        "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n",
        "generation_config.json": json.dumps({"bos_token_id": 264, "eos_token_id": 264, "do_sample": True}),
        "chat_template.jinja": "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}",
    }
    for file, text in texts.items():
        (folder / file).write_text(text)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")


def main():
    write_folder("gpt2", GPT2, drawn(gpt2_shapes(), 1))
    write_folder("llama", LLAMA, drawn(llama_shapes(), 2))
    documents = [f"Document {i} of the thousand: the square of it and of others is {i * i}." for i in range(400)]
    pathlib.Path("corpus.txt").write_text("".join(d + "\n" for d in documents))
    pathlib.Path("corpus.jsonl").write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
    with open("tokens.bin", "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, 4000, *([0] * 253)))
        file.write(struct.pack("<4000H", *(i * i % VOCABULARY for i in range(4000))))


if __name__ == "__main__":
    main()
