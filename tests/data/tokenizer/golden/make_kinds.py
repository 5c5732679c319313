# Makes kinds.jsonl beside it with the reference implementations (PyPI tokenizers 0.23.3, sentencepiece
# 0.2.3): small tokenizers of every kind that folders bring, and for each text of its first line a digest of the
# ids and of the text that comes back, without U+FFFD: how many stand for bytes that are no text is a matter of taste.
# usage: python make_kinds.py <this folder>
import io, json, random, sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = """In the beginning was the Word, and the Word was with God. It's 1984, isn't it? They've 12345 apples;
we're counting 3.14159 of them!  Two  spaces,   three.\n\n\tTabs\tand newlines\r\nüber naïve café — “quoted” 你好世界 🙂👩‍👩‍👧 \u00a0nbsp
for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // don't WE'RE I'LL ÀÉÎ Ελληνικά русский язык العربية हिन्दी 日本語カタカナ 한국어
the theme of these things is that other thistles gather there than there were here before"""
CORPUS = [TEXT] * 4 + TEXT.split("\n")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{i:02X}>" for i in range(256)]
WORDS = ("the there and or 's 't \n \t 0123456789 .,;!?-_ éß 你 🙂 AZ beginning Word café naïve 日本語 한국어 русский ▁ <unk> <s> "
         "[MASK] [CLS] <|endoftext|> <|pad|> wordy <0x41> don't not ' `` '' @@ Ġ </w>").split(" ")
PLANES = [(0, 0x7F), (0x80, 0x24F), (0x250, 0x6FF), (0x700, 0x1FFF), (0x2000, 0x33FF), (0x3400, 0xD7FF), (0xE000, 0xFFFF),
          (0x10000, 0x1FFFF), (0x20000, 0x2FFFF)]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u200d\u200b\ufe0f\ufeff\u20e3")
kinds = {}


def strange_text(rng):
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.45: parts.append(rng.choice(WORDS))
        elif kind < 0.6: parts.append(" " * rng.randint(1, 3))
        elif kind < 0.75: parts.append(chr(rng.randint(*rng.choice(PLANES))))
        elif kind < 0.85: parts.append(rng.choice(MARKS))
        elif kind < 0.9: parts.append(rng.choice("\n\t\r\0\x0b\x0c\x85\u00a0\u2028\u3000\u1680\u180e"))
        else: parts.append(rng.choice("abcXYZİıſßΣς12³½Ⅷ٣") * rng.randint(1, 4))
    return "".join(parts)


def byte_level(name, pre_tokenizer, normalizer=None, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer: t.normalizer = normalizer
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=340, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                      special_tokens=["<|endoftext|>"], show_progress=False))
    t.add_special_tokens([AddedToken("<|pad|>", lstrip=True, rstrip=True, normalized=False, special=True)])
    t.add_tokens([AddedToken("wordy", single_word=True, normalized=True)])
    kinds[name] = t


def characters(name, normalizer, pre_tokenizer, decoder, fuse=True, fallback=True):
    special = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer: trained.normalizer = normalizer
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never" if normalizer else "always")
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=len(special) + 200, special_tokens=special, limit_alphabet=80,
                                                            show_progress=False))
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback))
    if normalizer: t.normalizer = normalizer
    if pre_tokenizer: t.pre_tokenizer = pre_tokenizer
    t.decoder = decoder
    made, ours = json.loads(trained.to_str()), json.loads(t.to_str())
    for key in ("vocab", "merges"): ours["model"][key] = made["model"][key]
    ours["added_tokens"] = [a for a in made["added_tokens"] if a["content"] not in BYTES]
    kinds[name] = Tokenizer.from_str(json.dumps(ours))


def word_piece(name, **parts):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(**parts), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=True)
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=380, limit_alphabet=120, show_progress=False,
                                                            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    kinds[name] = t


def unigram(name, normalizer, pre_tokenizer, decoder, fallback=False):
    t = Tokenizer(models.Unigram())
    if normalizer: t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre_tokenizer, decoder
    special = ["<pad>", "</s>", "<unk>"] + (BYTES if fallback else [])
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=len(special) + 220, special_tokens=special, unk_token="<unk>",
                                                          show_progress=False))
    made = json.loads(t.to_str())
    made["model"]["byte_fallback"] = fallback
    made["added_tokens"] = [a for a in made["added_tokens"] if a["content"] not in BYTES]
    kinds[name] = Tokenizer.from_str(json.dumps(made))


def words(name, pre_tokenizer):
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizer
    t.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=150, special_tokens=["<unk>"], show_progress=False))
    kinds[name] = t


def affixes(name, normalizer, decoder, **affix):
    t = Tokenizer(models.BPE(unk_token="<unk>", **affix))
    if normalizer: t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if decoder: t.decoder = decoder
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False, **affix))
    kinds[name] = t


def charsmap(name, rule):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.split("\n")), model_writer=model, model_type="unigram",
                                             vocab_size=200, normalization_rule_name=rule, hard_vocab_limit=False, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                                         normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer, t.decoder = space_sign(), decoders.Metaspace()
    kinds[name] = t


def level(prefix=False, pattern=True): return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern)
def space_sign(scheme="always", split=True): return pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
def split(pattern, behavior="isolated", invert=False): return pre_tokenizers.Split(pattern, behavior, invert)
def spaces_back(strip=True):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
                             + ([decoders.Strip(" ", 1, 0)] if strip else []))


Steps, Norms = pre_tokenizers.Sequence, normalizers.Sequence
byte_level("gpt2", level())
byte_level("roberta", level(True))
byte_level("llama3", Steps([split(Regex(LLAMA3)), level(False, False)]), ignore_merges=True)
byte_level("qwen", Steps([split(Regex(LLAMA3.replace("{1,3}", ""))), level(False, False)]), normalizers.NFC())
byte_level("neox", level(), normalizers.NFC())
byte_level("falcon", Steps([pre_tokenizers.Punctuation("contiguous"), level(), pre_tokenizers.Digits(False),
                            split(Regex("[0-9][0-9][0-9]"))]))
byte_level("starcoder", Steps([pre_tokenizers.Digits(True), level()]))
byte_level("thousands", Steps([split(Regex(r"(?=(\d{3})+(?!\d))")), level()]))
byte_level("letters_first", split(Regex("Ġ?[^Ġ]+")), Norms([normalizers.NFC(), normalizers.ByteLevel()]))
to_sign = normalizers.Replace(" ", "▁")
characters("llama2", Norms([normalizers.Prepend("▁"), to_sign]), None, spaces_back())
characters("mistral", None, space_sign("first", False), spaces_back())
characters("gemma", to_sign, split(" ", "merged_with_previous"), spaces_back(False))
characters("unknown", to_sign, None, spaces_back(False), fuse=False, fallback=False)
characters("unknown_runs", to_sign, None, spaces_back(False), fallback=False)
word_piece("bert_uncased", lowercase=True)
word_piece("bert_cased", lowercase=False)
word_piece("bert_raw", lowercase=True, strip_accents=False, clean_text=False, handle_chinese_chars=False)
to_space = decoders.Metaspace(prepend_scheme="always")
one_space = normalizers.Replace(Regex(" {2,}"), " ")
unigram("t5", Norms([normalizers.Nmt(), normalizers.NFKC(), one_space]), space_sign(), to_space)
unigram("albert", Norms([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
                         normalizers.Lowercase(), one_space]), space_sign(), to_space)
unigram("xlm_roberta", Norms([normalizers.Strip(), normalizers.NFD()]), Steps([pre_tokenizers.WhitespaceSplit(), space_sign()]), to_space)
unigram("first_word", None, Steps([pre_tokenizers.WhitespaceSplit(), space_sign("first")]), decoders.Metaspace(prepend_scheme="first"))
unigram("unigram_bytes", None, space_sign(), spaces_back(), True)
unigram("unigram_whole", None, space_sign("always", False), to_space)
charsmap("nmt_nfkc", "nmt_nfkc")
words("words", pre_tokenizers.Whitespace())
words("delimiter", pre_tokenizers.CharDelimiterSplit("i"))
words("punctuation_behind", Steps([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")]))
words("punctuation_before", Steps([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next")]))
words("punctuation_runs", pre_tokenizers.Punctuation("contiguous"))
words("fixed", pre_tokenizers.FixedLength(3))
words("digits", pre_tokenizers.Digits(False))
words("between", split(Regex("[a-z]+"), "merged_with_next", True))
words("between_text", split("e", "merged_with_previous", True))
affixes("clip", Norms([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]), decoders.BPEDecoder(),
        end_of_word_suffix="</w>")
affixes("prefix", None, None, continuing_subword_prefix="@@")


def digest(ids, text):  # FNV-1a, 64 bits
    out = 0xCBF29CE484222325
    for byte in (",".join(map(str, ids)) + "|" + text).encode():
        out = (out ^ byte) * 0x100000001B3 % 2**64
    return f"{out:016x}"


rng = random.Random(42)
texts = ["", " ", "a", "  a  b ", TEXT, "x" * 150, "é" * 120] + [strange_text(rng) for _ in range(250)]
with open(f"{sys.argv[1]}/kinds.jsonl", "w") as out:
    out.write(json.dumps({"texts": [text.encode().hex() for text in texts]}) + "\n")
    for name, t in kinds.items():
        found = []
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            found.append(digest(ids, t.decode(ids, skip_special_tokens=False).replace("\ufffd", "")))
        made = json.loads(t.to_str())
        out.write(json.dumps({"name": name, "tokenizer": made, "digests": found}, ensure_ascii=False, separators=(",", ":")) + "\n")
