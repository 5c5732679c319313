# Makes the files beside it with the reference implementation (PyPI tokenizers 0.23): small vocabularies
# trained on the text below, and for each sample (hex of its UTF-8, tab) the ids it must become.
# usage: python make.py <this folder>
import json, sys, random
from tokenizers import Tokenizer, models, trainers, pre_tokenizers, decoders, Regex, AddedToken
text = """In the beginning was the Word, and the Word was with God. It's 1984, isn't it? They've 12345 apples;
we're counting 3.14159 of them!  Two  spaces,   three.\n\n\tTabs\tand newlines\r\nüber naïve café — “quoted” 你好世界 🙂👩‍👩‍👧 \u00a0nbsp
for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // don't WE'RE I'LL
the theme of these things is that other thistles gather there than there were here before""".strip()
corpus = [text] * 4 + [l for l in text.split("\n")]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
samples = ["", " ", "a", "Hello, world!", text, "  leading and trailing  ", "it's IT'S we'll", "1234567 12 1",
  "x\n\n\ny   \n z", "tabs\t\t\tend", "你好 世界🙂", "<|endoftext|>the<|endoftext|><|pad|>  there <|pad|>", "there<|sep|> after", "a\u00a0b \u2003c\u0085d", "ÀÉ ñ ß ı İ ſ K'S K'ſ",
  "....!!!???", "_under_score__", "'''", "\r\n\r\n", "\u200b\u200d", "thethethethethe" * 20, "½ ² ٣ Ⅷ 一"]
rng = random.Random(7)
alphabet = list("the there and or 's 't  \n\t0123456789.,;!?-_éß你🙂AZ")
for _ in range(60): samples.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))))
def make(name, pre, vocab, merges_as_pairs, ignore=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore)); t.pre_tokenizer = pre; t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False))
    t.add_special_tokens([AddedToken("<|pad|>", lstrip=True, rstrip=True, normalized=False, special=True), AddedToken("<|sep|>", normalized=False, special=True)])
    j = json.loads(t.to_str())
    if not merges_as_pairs: j["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    s = json.dumps(j, ensure_ascii=False, indent=None, separators=(",", ":"))
    t2 = Tokenizer.from_str(s)
    open(f"{sys.argv[1]}/{name}.json", "w").write(s + "\n")
    with open(f"{sys.argv[1]}/{name}.expected", "w") as f:
        for x in samples: f.write(x.encode().hex() + "\t" + " ".join(map(str, t2.encode(x, add_special_tokens=False).ids)) + "\n")
    print(name, t2.get_vocab_size(), type(j["model"]["merges"][0]), j["pre_tokenizer"])
make("gpt2", pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), 420, False)
make("gpt2_prefix_space", pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), 330, True)
make("llama3", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), 420, True, True)
make("digits", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(LLAMA3), behavior="removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), 350, True)
