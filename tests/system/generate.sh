# generate, eval and tokenize on small Hugging Face folders that are written here: a model whose likeliest token after
# each letter is the next one, so that every text is known; ends, stops, masks, standard input, errors.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD

# Ids 0 to 9 are a to j, 10 begins texts and 11 ends them, 12 and 13 are the two bytes of é, 14 and 15 are padding.
cat > make.py <<'PY'
import json, os, struct, sys

VOCABULARY = 16

def tensors(after, untied):
    """A model of one block that adds nothing: after token t, after[t] are the likeliest, in this order."""
    width = VOCABULARY
    zeros = lambda *shape: (shape, [0.0] * (shape[0] * (shape[1] if len(shape) > 1 else 1)))
    ones = lambda n: ((n,), [1.0] * n)
    table = [float(row == column) for row in range(VOCABULARY) for column in range(width)]
    head = [0.0] * (VOCABULARY * width)
    for token, likeliest in after.items():
        for place, following in enumerate(likeliest):
            head[following * width + token] = 4.0 - place
    block = "transformer.h.0."
    out = {"transformer.wte.weight": ((VOCABULARY, width), table), "transformer.wpe.weight": zeros(8, width),
           "transformer.ln_f.weight": ones(width), "transformer.ln_f.bias": zeros(width),
           block + "attn.c_attn.weight": zeros(width, 3 * width), block + "attn.c_attn.bias": zeros(3 * width),
           block + "attn.c_proj.weight": zeros(width, width), block + "attn.c_proj.bias": zeros(width),
           block + "mlp.c_fc.weight": zeros(width, 4 * width), block + "mlp.c_fc.bias": zeros(4 * width),
           block + "mlp.c_proj.weight": zeros(4 * width, width), block + "mlp.c_proj.bias": zeros(width)}
    for norm in ("ln_1", "ln_2"):
        out[block + norm + ".weight"], out[block + norm + ".bias"] = ones(width), zeros(width)
    if untied:
        out["lm_head.weight"] = ((VOCABULARY, width), head)
    return out

def pack(values, dtype):
    words = struct.pack(f"<{len(values)}f", *values)
    return words if dtype == "F32" else b"".join(words[i + 2:i + 4] for i in range(0, len(words), 4))

def folder(name, after, dtype="F32", config=(), post_processor=None, generation=None, tokenizer_config=None):
    os.makedirs(name)
    header, data = {}, b""
    for key, (shape, values) in tensors(after, True).items():
        raw = pack(values, dtype)
        header[key] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    open(name + "/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
    write = lambda file, value: open(f"{name}/{file}", "w").write(json.dumps(value))
    write("config.json", {"architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_positions": 8, "n_layer": 1,
                          "n_head": 1, "n_embd": VOCABULARY, "tie_word_embeddings": False, **dict(config)})
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    vocab = {letter: i for i, letter in enumerate("abcdefghij")} | {"Ã": 12, "©": 13}
    added = [{"id": 10, "content": "<s>", "special": True}, {"id": 11, "content": "</s>", "special": True}]
    write("tokenizer.json", {"added_tokens": added, "pre_tokenizer": level, "decoder": level,
                             "post_processor": post_processor, "model": {"type": "BPE", "vocab": vocab, "merges": []}})
    if generation: write("generation_config.json", generation)
    if tokenizer_config: write("tokenizer_config.json", tokenizer_config)

letters = {t: [t + 1] for t in range(9)}
template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
            "special_tokens": {"<s>": {"ids": [10]}}}
folder("plain", letters | {9: [0]})
folder("halves", letters | {9: [0]}, dtype="BF16")
folder("ends", letters | {9: [11], 10: [0]}, config={"eos_token_id": 11}.items(), post_processor=template,
       tokenizer_config={"eos_token": "</s>"})
folder("ends-by-list", letters | {9: [0]}, config={"eos_token_id": 11}.items(), generation={"eos_token_id": [11, 4]})
folder("ends-by-name", letters | {9: [11]}, tokenizer_config={"eos_token": "</s>"})
folder("padded", {0: [15, 14, 2], 2: [1]})
folder("accents", {0: [12], 12: [13], 13: [12]})
PY
python3 make.py || fail "the folders could not be written"

text() { # text <expected> <arguments...>: of generate, greedily
  local want=$1
  shift
  expect 0 generate "$@" --temperature 0
  printf '%s\n' "$want" | cmp -s - out || fail "generate $*: not $want"
}
field() { python3 -c "import json; print(json.loads(open('out').readlines()[$1])['$2'])"; }
json() { # json <line> <name> <expected>: of the last output
  [ "$(field "$1" "$2")" = "$3" ] || fail "line $1: $2 is $(field "$1" "$2"), expected $3"
}

# How a text ends.
text abcd plain --prompt a --max-tokens 3
text abcd halves --prompt a --max-tokens 3
text abcd halves --prompt a --max-tokens 3 --dtype fp32
text ghij ends --prompt g
text abcd ends-by-list --prompt a
text ghij ends-by-name --prompt g
text abc plain --prompt a --stop hi --stop de
expect 0 generate ends --prompt g --json --temperature 0
json 0 text hij && json 0 finish_reason eos && json 0 tokens 3 && json 0 prompt_tokens 2 && json 0 ids '[7, 8, 9]'
expect 0 generate plain --prompt a --json --temperature 0 --stop de
json 0 text bc && json 0 finish_reason stop
expect 0 generate plain --prompt a --json --temperature 0 --max-tokens 2
json 0 text bc && json 0 finish_reason length

# What begins it: the tokenizer's own token, also alone.
text abc ends --prompt "" --max-tokens 3
expect 2 generate plain --prompt ""
expect_text err "the prompt is empty"

# Ids that no token has are never drawn, whatever they weigh and however it is drawn.
text acb padded --prompt a --max-tokens 2
for seed in 1 2 3 4 5 6 7 8; do
  expect 0 generate padded --prompt a --max-tokens 20 --top-k 0 --temperature 3 --seed $seed --json
  python3 -c "import json; assert not {14, 15} & set(json.load(open('out'))['ids'])" || fail "a padded id was drawn"
done
# The second likeliest letter of two is drawn by neither top-k 1 nor a small top-p.
text abcdef plain --prompt a --max-tokens 5
for few in "--top-k 1" "--top-k 0 --top-p 0.01"; do
  # shellcheck disable=SC2086
  expect 0 generate plain --prompt a --max-tokens 5 $few --seed 7
  expect_text out abcdef
done
expect 0 generate plain --prompt a --max-tokens 6 --top-k 0 --temperature 5 --seed 7 && cp out first
expect 0 generate plain --prompt a --max-tokens 6 --top-k 0 --temperature 5 --seed 7
cmp -s first out || fail "the same seed gave another text"

# Never half a character.
text "aé" accents --prompt a --max-tokens 2
expect 0 generate accents --prompt a --max-tokens 3 --temperature 0
printf 'aé\xef\xbf\xbd\n' | cmp -s - out || fail "half a character was printed"

# More text than the model has positions goes on, and says so once.
text abcdefghijabcde plain --prompt a --max-tokens 14
expect_text err "the text has reached the model's 8 positions"
[ "$(grep -c note: err)" -eq 1 ] || fail "not one note"

# Standard input: one prompt, or one each line; without the last line break.
echo a | timeout 60 dslaunch generate plain --temperature 0 --max-tokens 2 > out 2> err || fail "a prompt on standard input"
expect_text out abc
printf 'a\n\nd\n' | timeout 60 dslaunch generate plain --prompt - --lines --temperature 0 --max-tokens 1 --json > out 2> err ||
  fail "prompts on standard input"
json 0 text b && json 1 text e && json 1 prompt d
[ "$(wc -l < out)" -eq 2 ] || fail "an empty line was a prompt"
expect 0 generate plain --prompt a --prompt e --temperature 0 --max-tokens 1
printf 'ab\nef\n' | cmp -s - out || fail "two prompts"

# Prompts from a file, with what their lines carry, each several times; what each token was worth.
printf '{"id": "first", "prompt": "a"}\n\n{"text": "d", "n_of": [1, 2.50]}\n' > prompts.jsonl
expect 0 generate plain --prompts prompts.jsonl --temperature 0 --max-tokens 1 --json --logprobs 2
json 0 text b && json 0 id first && json 1 text e && json 1 n_of '[1, 2.5]'
python3 - <<'PY' || fail "log-probabilities are not those of the logits"
import json, math
line = json.loads(open("out").readline())
high, low = 4 * math.sqrt(15), -4 / math.sqrt(15)  # as below, for eval
(token,) = line["logprobs"]
assert (token["id"], token["text"], token["top"][0]["id"], len(token["top"])) == (1, "b", 1, 2), token
assert abs(token["logprob"] - (high - math.log(math.exp(high) + 9 * math.exp(low) + 6))) < 1e-3, token
PY
for more in "" "--num-ranks 2"; do
  # shellcheck disable=SC2086
  expect 0 generate plain --prompts prompts.jsonl --num-samples 2 --top-k 0 --temperature 3 --max-tokens 4 --json --logprobs 1 \
    --repetition-penalty 1.3 --min-p 0.01 $more
  json 1 sample 1 && json 1 prompt a && json 2 prompt d
  sed -E 's/"(seconds|tokens_per_s)":[^,]*,//g' out > "samples$more"
done
cmp -s samples "samples--num-ranks 2" || fail "two ranks draw other samples"

# What the model's folder says of drawing counts where no option does, and is told.
cp -r plain says
echo '{"do_sample": false, "max_new_tokens": 3, "top_p": 0.9, "num_beams": 4}' > says/generation_config.json
expect 0 generate says --prompt a
expect_text out abcd
expect_text err "note: temperature 0 (do_sample false), max_new_tokens 3 from generation_config.json"
expect_text err "note: not applied from generation_config.json: num_beams 4"
expect 0 generate says --prompt a --max-tokens 2 --json --num-ranks 2
json 0 text bc
expect_text err "note: temperature 0 (do_sample false) from generation_config.json"

# Errors are one line each.
refused() { # refused <code> <text> <arguments...>
  local code=$1 words=$2
  shift 2
  expect "$code" "$@" < /dev/null
  expect_text err "$words"
  [ "$(wc -l < err)" -eq 1 ] || fail "$*: more than one line"
}
refused 2 "the prompt is 9 tokens, the model has 8 positions" generate plain --prompt abcdefghi
refused 66 "is no run directory, checkpoint tag or Hugging Face folder" generate nowhere --prompt a
refused 2 "the prompt is empty" generate plain
refused 2 "--stop: the text is empty" generate plain --prompt a --stop ""
refused 2 "--lines" generate plain --prompt a --lines
refused 78 "they do not belong together" generate plain --prompt a --tokenizer byte
refused 78 "they do not belong together" eval plain --data text.txt --tokenizer byte
echo '{"prompt": "a", "temperature": 1}' > hot.jsonl
refused 65 "hot.jsonl:1: the field \"temperature\" is no option of one prompt" generate plain --prompts hot.jsonl
refused 66 "missing.jsonl" generate plain --prompts missing.jsonl
refused 2 "add --json" generate plain --prompt a --logprobs 1
cp -r plain wrong && echo '{"top_p": 7}' > wrong/generation_config.json
refused 65 "wrong/generation_config.json: \"top_p\" is 7" generate wrong --prompt a
mkdir bare && cp plain/config.json plain/model.safetensors bare
refused 66 "the folder holds no tokenizer" generate bare --prompt a
[ -s out ] && fail "something was printed before the error"

# eval: a model that knows nothing has the entropy of its vocabulary; windows, batches and formats do not matter to it.
python3 - <<'PY'
import gzip, json
text = "abcdefghijabcdefghijabcdjihgfedcba" * 9
open("text.txt", "w").write(text)
gzip.open("text.txt.gz", "wt").write(text)
open("two.jsonl", "w").write("".join(json.dumps({"body": text[i:i + 50]}) + "\n" for i in range(0, len(text), 50)))
PY
loss() { field 0 loss; }
expect 0 eval plain --data text.txt --json
json 0 bytes 306 && json 0 tokens 306 && json 0 predicted_tokens 305 && json 0 seq_length 8
plain=$(loss)
python3 - "$plain" <<'PY' || fail "loss of the text: $plain"
import math, sys
row = [4 * math.sqrt(15.0 / (1 + 16 * 1e-5)), 0]  # ln_f of a letter: sqrt(15) at its place, -1/sqrt(15) elsewhere
text = "abcdefghijabcdefghijabcdjihgfedcba" * 9
high, low = 4 * math.sqrt(15), -4 / math.sqrt(15)
log_sum = math.log(math.exp(high) + 9 * math.exp(low) + 6)  # ten letters follow some other one, six tokens none
nats = [log_sum - (high if "abcdefghija"[ord(a) - 97 + 1] == b else low) for a, b in zip(text, text[1:])]
assert abs(sum(nats) / len(nats) - float(sys.argv[1])) < 1e-3, sum(nats) / len(nats)
PY
python3 - <<'PY' || fail "perplexity or bits per byte do not fit the loss"
import json, math
o = json.load(open("out"))
assert abs(o["perplexity"] / math.exp(o["loss"]) - 1) < 1e-12
assert abs(o["bits_per_byte"] - o["loss"] * 305 / math.log(2) / 306) < 1e-12
PY
for way in "--batch 7" "--stride 3" "--seq-length 5 --stride 2 --batch 4" "--num-threads 1"; do
  # shellcheck disable=SC2086
  expect 0 eval plain --data text.txt --json $way
  json 0 predicted_tokens 305
  python3 -c "assert abs($(loss) - $plain) < 1e-6" || fail "eval $way: $(loss), not $plain"
done
expect 0 eval plain --data text.txt.gz --json
[ "$(loss)" = "$plain" ] || fail "compressed text has another loss"
expect 0 eval plain --data text.txt
expect_text out "bits per byte"
# The tokenizer's first token is there to predict the first letter from; what ends the 7 documents has no bytes.
expect 0 eval ends --data two.jsonl --field body --json
json 0 tokens 313 && json 0 predicted_tokens 313 && json 0 bytes 306
refused 65 "two.jsonl:1" eval plain --data two.jsonl
refused 2 "--seq-length 9: expected 1 to 8" eval plain --data text.txt --seq-length 9
refused 2 "--stride 6: expected 1 to 5" eval plain --data text.txt --seq-length 5 --stride 6
refused 66 "missing.txt" eval plain --data missing.txt
printf a > one.txt
refused 65 "the text is one token" eval plain --data one.txt

# tokenize: there and back.
same() { # same <expected> <arguments...>
  local want=$1
  shift
  expect 0 tokenize --tokenizer plain "$@"
  [ "$(cat out)" = "$want" ] || fail "tokenize $*: $(cat out), expected $want"
}
same $'0 1 12 13\n2' "abé" c
same $'4\n1' --count "abé" c
same '{"count":3,"ids":[0,12,13],"tokens":["a","�","�"]}' --json "aé"
same $'abé\nc' --decode "0 1 12 13" "[2]"
same '0 1' --special-tokens ab
expect 0 tokenize --tokenizer ends --special-tokens ab && [ "$(cat out)" = "10 0 1" ] || fail "no first token"
printf 'ab\ncd' > lines.txt
expect 0 tokenize --tokenizer bytes --file lines.txt && [ "$(cat out)" = "97 98 10 99 100" ] || fail "a file is a text as it is"
same $'0 1\n2 3' --lines --file lines.txt
echo -n ab | timeout 60 dslaunch tokenize --tokenizer plain/tokenizer.json > out 2> err && [ "$(cat out)" = "0 1" ] ||
  fail "a text on standard input"
refused 65 "\"x\" is no token id" tokenize --tokenizer plain --decode "0 x"
refused 65 "id 14 is not in the vocabulary" tokenize --tokenizer plain --decode 14
refused 66 "nowhere" tokenize --tokenizer nowhere a

# A run: its own tokenizer, checkpoint and final folder.
cp text.txt corpus.txt
expect 0 train.json --run-dir run train.save_every=5 --num-ranks 1
expect 0 eval run --data text.txt --json && final=$(loss)
expect 0 eval run/checkpoints --data text.txt --json
[ "$(loss)" = "$final" ] || fail "the last checkpoint and the final folder have different losses"
expect 0 generate run --prompt a --max-tokens 3
expect 0 tokenize --tokenizer run ab && [ "$(cat out)" = "97 98" ] || fail "the tokenizer of a run"

finish
