# Makes ranks.jsonl beside it with the reference implementations (PyPI tiktoken 0.14.0, mistral_common 1.13.1): a small
# vocabulary of bytes by rank, and for each kind of file a digest of the ids of each text of the first line.
# usage: python make_ranks.py <this folder> [<number of texts> <seed>]
import base64, json, random, sys, tempfile, unicodedata

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from make_pieces import TEXT, strange_text

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
QWEN = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENGLISH = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
FIRST = r"[^\r\n\p{L}\p{N}]?"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = f"{FIRST}{UPPER}*{LOWER}+{ENGLISH}|{FIRST}{UPPER}+{LOWER}*{ENGLISH}|" + r"\p{N}{1,3}|" + REST
TEKKEN = f"{FIRST}{UPPER}*{LOWER}+|{FIRST}{UPPER}+{LOWER}*|" + r"\p{N}|" + REST


def vocabulary():
    rng = random.Random(3)
    # tiktoken's trainer works on each word of a pattern of Python; any vocabulary will do.
    ranks = [bytes([i]) for i in range(256)]
    words = TEXT.encode().split(b" ")
    for word in [b" " + w for w in words] + words:  # parts of words, in an order that no training makes
        for _ in range(6):
            begin = rng.randrange(len(word)) if word else 0
            part = word[begin:begin + rng.randint(2, 5)]
            if len(part) > 1 and part not in ranks: ranks.append(part)
    for more in (b"  ", b"    ", b"\n\n", b"\r\n", b" \n", b"12", b"345", "é".encode(), "你好".encode()):
        if more not in ranks: ranks.append(more)
    return ranks


ranks = vocabulary()
mergeable = {token: i for i, token in enumerate(ranks)}


def encoding(pattern): return tiktoken.Encoding("own", pat_str=pattern, mergeable_ranks=mergeable, special_tokens={})


tekken = {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(ranks), "default_vocab_size": 30 + len(ranks) - 5,
                     "default_num_special_tokens": 30, "version": "v3"},
          "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(ranks)]}
folder = tempfile.mkdtemp()
with open(f"{folder}/tekken.json", "w") as out: json.dump(tekken, out)
mistral = Tekkenizer.from_file(f"{folder}/tekken.json")
kinds = [
    ("llama3", "tokenizer.model", {"tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "llama"}, encoding(LLAMA3).encode_ordinary),
    ("qwen", "qwen.tiktoken", {"tokenizer_class": "QWenTokenizer"}, {},
     lambda text: encoding(QWEN).encode_ordinary(unicodedata.normalize("NFC", text))),
    ("cl100k", "cl100k_base.tiktoken", {}, {}, encoding(CL100K).encode_ordinary),
    ("o200k", "o200k_base.tiktoken", {}, {}, encoding(O200K).encode_ordinary),
    ("r50k", "r50k_base.tiktoken", {}, {}, encoding(R50K).encode_ordinary),
    ("tekken", "tekken.json", {}, {}, lambda text: mistral.encode(text, bos=False, eos=False)),
]


def digest(ids):  # FNV-1a, 64 bits
    out = 0xCBF29CE484222325
    for byte in ",".join(map(str, ids)).encode(): out = (out ^ byte) * 0x100000001B3 % 2**64
    return f"{out:016x}"


def is_known(text): return all(unicodedata.category(c) != "Cn" for c in text)  # to Unicode 14


count, seed = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else (100, 11)
rng = random.Random(seed)
texts = ["", " ", "a", "  a  b ", TEXT, "x" * 300, "é" * 120, "the" * 400] + [strange_text(rng) for _ in range(count)]
texts = [text for text in texts if is_known(text)]
lines = "".join(f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(ranks))
with open(f"{sys.argv[1]}/ranks.jsonl", "w") as out:
    out.write(json.dumps({"texts": [text.encode().hex() for text in texts], "ranks": lines}) + "\n")
    for name, file, config, model, encode in kinds:
        out.write(json.dumps({"name": name, "file": file, "config": json.dumps(config), "model": json.dumps(model),
                              "pattern": TEKKEN if name == "tekken" else "",
                              "digests": [digest(encode(text)) for text in texts]}, separators=(",", ":")) + "\n")
