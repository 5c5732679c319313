# Makes pieces.jsonl beside it with the reference implementation (PyPI sentencepiece 0.2.3, protobuf 7.36.2 to change
# what a model says): small models of each algorithm and setting, and for each text of the first line a digest of the ids,
# and of the text that comes back. More texts than those, and another seed, can be asked for, to compare by hand.
# usage: python make_pieces.py <this folder> [<number of texts> <seed>]
import base64, io, json, random, sys, tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

TEXT = """In the beginning was the Word, and the Word was with God. It's 1984, isn't it? They've 12345 apples;
we're counting 3.14159 of them!  Two  spaces,   three.
\tTabs\tand newlines, über naïve café — “quoted” 你好世界 🙂👩‍👩‍👧 \u00a0nbsp
for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // don't WE'RE I'LL ÀÉÎ Ελληνικά русский العربية हिन्दी 日本語 한국어
the theme of these things is that other thistles gather there than there were here before"""
WORDS = ("the there and or 's 't \n \t 0123456789 .,;!?-_ éß 你 🙂 AZ beginning Word café naïve 日本語 한국어 русский ▁ ▁the "
         "[own] [own]2 own other  ther <0x41> don't not ﬁ ｱｲ ㌔ ① e\u0301 A\u030a ＡＢ thththth thing things gather").split(" ")
PLANES = [(1, 0x7F), (0x80, 0x24F), (0x250, 0x6FF), (0x700, 0x1FFF), (0x2000, 0x33FF), (0x3400, 0xD7FF), (0xE000, 0xFFFF),
          (0x10000, 0x1FFFF), (0x20000, 0x2FFFF)]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u200d\u200b\ufe0f\ufeff\u20e3")


def strange_text(rng):
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.5: parts.append(rng.choice(WORDS))
        elif kind < 0.65: parts.append(" " * rng.randint(1, 3))
        elif kind < 0.75: parts.append(chr(rng.randint(*rng.choice(PLANES))))
        elif kind < 0.82: parts.append(rng.choice(MARKS))
        elif kind < 0.9: parts.append(rng.choice("\n\t\r\0\x0b\x0c\x85\u00a0\u2028\u3000\u1680\u180e"))
        else: parts.append(rng.choice("abcXYZİıſßΣς12³½Ⅷ٣") * rng.randint(1, 4))
    return "".join(parts)


def trained(model_type, vocab_size, **more):
    model = io.BytesIO()
    settings = dict(hard_vocab_limit=False, minloglevel=2, normalization_rule_name="identity", character_coverage=0.98)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.split("\n") * 4), model_writer=model, model_type=model_type,
                                             vocab_size=vocab_size, **{**settings, **more})
    return model.getvalue()


def changed(model, change):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    change(proto)
    return proto.SerializeToString()


def with_unused(proto):  # every third piece of several letters
    longer = [p for p in proto.pieces if p.type == 1 and len(p.piece) > 1]
    for piece in longer[::3]: piece.type = 5


def with_ties(proto):  # scores that are equal again and again
    for i, piece in enumerate(proto.pieces):
        if piece.type == 1: piece.score = -float(i % 3)


def with_rules(proto):  # a table of its own, so that no large one of the library has to be kept here
    proto.normalizer_spec.precompiled_charsmap = RULES


def rules():
    lines = ["66 69\t66 6A", "66 69 6E\t46", "A0\t20", "9\t20", "200B\t", "41 30A\tC5", "FF21\t61", "3000\t20 20", "E9\t65 301", "300\t"]
    proto = sentencepiece_model_pb2.ModelProto()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as out:
        out.write("".join(line + "\n" for line in lines))
        out.flush()
        proto.ParseFromString(trained("char", 60, normalization_rule_tsv=out.name))
    return proto.normalizer_spec.precompiled_charsmap


def main():
    global RULES
    OWN = dict(user_defined_symbols=["[own]", "ther", "the▁w", "own", "  "], control_symbols=["<c>"])
    RULES = rules()
    models = {
        "unigram": trained("unigram", 150),
        "unigram_own": trained("unigram", 150, **OWN),
        "unigram_bytes": trained("unigram", 400, byte_fallback=True),
        "unigram_ties": changed(trained("unigram", 150), with_ties),
        "unigram_unused": changed(trained("unigram", 150), with_unused),
        "unigram_rules": changed(trained("unigram", 140, **OWN), with_rules),
        "unigram_suffix": trained("unigram", 140, treat_whitespace_as_suffix=True, unk_surface="?", bos_piece="<B>", pad_id=3),
        "bpe": trained("bpe", 180),
        "llama": trained("bpe", 430, byte_fallback=True, remove_extra_whitespaces=False, split_digits=True),
        "gemma": trained("bpe", 430, byte_fallback=True, remove_extra_whitespaces=False, add_dummy_prefix=False,
                         allow_whitespace_only_pieces=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, **OWN),
        "bpe_own": trained("bpe", 180, **OWN),
        "bpe_ties": changed(trained("bpe", 180), with_ties),
        "bpe_unused": changed(trained("bpe", 180), with_unused),
        "bpe_rules": changed(trained("bpe", 140, remove_extra_whitespaces=False, **OWN), with_rules),
        "char": trained("char", 90, **OWN),
        "char_suffix": trained("char", 90, treat_whitespace_as_suffix=True, remove_extra_whitespaces=False),
        "word": trained("word", 60, **OWN),
        "word_spaces": trained("word", 60, remove_extra_whitespaces=False, add_dummy_prefix=False),
    }
    if len(sys.argv) > 2:  # too large to be kept
        models["nmt_nfkc"] = trained("unigram", 150, normalization_rule_name="nmt_nfkc")
        models["nfkc_cf"] = trained("bpe", 150, normalization_rule_name="nfkc_cf", **OWN)


    def digest(ids, text):  # FNV-1a, 64 bits
        out = 0xCBF29CE484222325
        for byte in (",".join(map(str, ids)) + "|").encode() + text:
            out = (out ^ byte) * 0x100000001B3 % 2**64
        return f"{out:016x}"


    count, seed = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else (130, 7)
    rng = random.Random(seed)
    texts = ["", " ", "a", "  a  b ", TEXT, "x" * 150, "é" * 120, "▁", "▁▁ a▁"] + [strange_text(rng) for _ in range(count)]
    texts = [text for text in texts if not any(role in text for role in ("<s>", "</s>", "<c>", "<B>", "<pad>"))]
    with open(f"{sys.argv[1]}/pieces.jsonl", "w") as out:
        out.write(json.dumps({"texts": [text.encode().hex() for text in texts]}) + "\n")
        for name, model in models.items():
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            normal = [i for i in range(processor.vocab_size()) if not processor.is_control(i)]
            found, decoded = [], []
            for text in texts:
                ids = processor.encode(text)
                found.append(digest(ids, processor.decode(ids).encode()))
            for _ in range(40):  # pieces in an order that no text has
                ids = [rng.choice(normal) for _ in range(rng.randint(1, 9))]
                decoded.append([ids, processor.decode(ids)])
            out.write(json.dumps({"name": name, "model": base64.b64encode(model).decode(), "digests": found, "decoded": decoded},
                                 ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__": main()
