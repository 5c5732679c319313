# What data may be, through the whole program: the same text in every format trains to the same weights; what cannot
# be read, or is no text, is one error at once (65, 66 or 78), never a wait, a second try or advice about room.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD

cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 3}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 2}}
JSON
python3 - <<'PY'
import json, gzip, os, subprocess
docs = [f"Document {i}: {i * i} is the square of {i}.\nIts second line." for i in range(600)]
text = "".join(d + "\n" for d in docs)
lines = "".join(json.dumps({"id": i, "text": d}) + "\n" for i, d in enumerate(docs))
half = text.index("Document 300")
os.makedirs("folder/sub")
os.makedirs("shards")
open("corpus.txt", "w").write(text)
open("corpus.jsonl", "w").write(lines)
open("body.jsonl", "w").write(lines.replace('"text"', '"body"'))
gzip.open("corpus.txt.gz", "wt").write(text)
gzip.open("corpus.jsonl.gz", "wt").write(lines)
open("folder/a.txt", "w").write(text[:half])
open("folder/sub/b.txt", "w").write(text[half:])
open("folder/_SUCCESS", "w")
gzip.open("shards/part-0.jsonl.gz", "wt").write("".join(lines.splitlines(True)[:300]))
open("shards/part-1.jsonl", "w").write("".join(lines.splitlines(True)[300:]))
open("changed.jsonl", "w").write(lines.replace("Document 7:", "Document X:"))
open("table.parquet", "wb").write(b"PAR1\x15\x04\x15" + bytes(range(1, 200)) + b"PAR1")
open("array.npy", "wb").write(b"\x93NUMPY\x01\x00v\x00{'descr': '<u2'}" + b"\x07\x00" * 2000)
open("noise.dat", "wb").write(os.urandom(20000))
open("empty.txt", "w")
mark = b"\xef\xbb\xbf"
open("marked.txt", "wb").write(mark + text.encode())
open("twice_marked.txt", "wb").write(mark + mark + text.encode())
open("marked.JSONL", "wb").write(mark + lines.replace("\n", "\r\n").encode())
gzip.open("marked.jl.GZ", "wb").write(mark + lines.encode())
open("scored.jsonlines", "w").write(lines.replace('{"id"', '{"score": NaN, "worst": -Infinity, "id"'))
os.makedirs("dataset/data")
open("dataset/README.md", "w").write("# About\nThese are shards.\n" * 20)
open("dataset/data/part.jsonl", "w").write(lines)
open("table.csv", "w").write("id,text\n" + "".join(f'{i},"{d}"\n' for i, d in enumerate(docs)))
open("lines.txt", "w").write(lines)
open("latin.txt", "wb").write(("d\u00e9j\u00e0 vu " + text).encode("latin-1"))
open("page.html", "w").write("<!DOCTYPE html>\n" + text)
open("list.json", "w").write(json.dumps([{"text": d} for d in docs], indent=2))
open("squad.json", "w").write(json.dumps({"version": "1", "data": [{"text": d} for d in docs]}))
open("utf16.txt", "wb").write(text.encode("utf-16"))
open("pointer.txt", "w").write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
gzip.open("bomb.gz", "wb").write(b"a" * (64 << 20))
open("broken.gz", "wb").write(open("corpus.txt.gz", "rb").read()[:500])
PY

# Same weights, and the same data by their digest: each format goes on where another one stopped.
expect 0 train.json --num-ranks 2 --run-dir plain
weights() { sha256sum < "$1/final/model.safetensors"; }
same() { # name, overrides...
  local name=$1
  shift
  expect 0 train.json --num-ranks 2 --run-dir "run-$name" "$@"
  [ "$(weights plain)" = "$(weights "run-$name")" ] || fail "$name: other weights than the plain text's"
}
same jsonl 'data.train=["corpus.jsonl"]'
same field 'data.train=["body.jsonl"]' data.field=body
same gz 'data.train=["corpus.txt.gz"]'
same jsonl-gz 'data.train=["corpus.jsonl.gz"]'
same folder 'data.train=["folder"]'
same pattern 'data.train=["shards/part-*"]'
same mark 'data.train=["marked.txt"]'
same mark-jsonl 'data.train=["marked.JSONL"]'
same mark-jl-gz 'data.train=["marked.jl.GZ"]'
same numbers 'data.train=["scored.jsonlines"]'
if command -v zstd > /dev/null; then
  zstd -q corpus.jsonl -o corpus.jsonl.zst
  same zst 'data.train=["corpus.jsonl.zst"]'
fi
expect 0 train.json --num-ranks 2 --run-dir plain train.steps=4 'data.train=["corpus.jsonl.gz"]'
expect 77 train.json --num-ranks 2 --run-dir plain train.steps=5 'data.train=["changed.jsonl"]'
expect_text err "the training data are others"
# A mark that was once read as text makes other samples: told, never passed over.
expect 0 train.json --num-ranks 2 --run-dir marked 'data.train=["twice_marked.txt"]'
expect 77 train.json --num-ranks 2 --run-dir marked train.steps=5 'data.train=["marked.txt"]'
expect_text err "the training data are others"

# What is text but looks like something else is noted once, by check, at the start of a run, and by eval.
noted() { # text in the note, overrides...
  local text=$1
  shift
  expect 0 check train.json "$@"
  [ "$(grep -c "note: .*$text" out)" = 1 ] || fail "check $*: no note, or several: $text"
}
noted "data.train: $PWD/table.csv looks like a table (CSV)" 'data.train=["table.csv"]'
noted "data.train: $PWD/lines.txt looks like JSON lines: its first 64 lines are objects" 'data.train=["lines.txt"]'
noted "data.validation: $PWD/latin.txt is not all UTF-8: 2 of " 'data.validation=["latin.txt"]'
noted "data.train: $PWD/page.html looks like HTML" 'data.train=["page.html"]'
noted "data.train: $PWD/dataset/README.md is text beside JSON lines ($PWD/dataset/data/part.jsonl)" 'data.train=["dataset"]'
expect 0 check train.json 'data.train=["corpus.txt","marked.txt","marked.JSONL","folder","shards"]'
expect_text out "no errors, no notes"
expect 0 train.json --num-ranks 2 --run-dir noted 'data.train=["table.csv"]' 'data.validation=["page.html"]'
cat out err > said
[ "$(grep -c "data.train: $PWD/table.csv looks like a table" said)" = 1 ] || fail "a run notes its training data once"
[ "$(grep -c "data.validation: $PWD/page.html looks like HTML" said)" = 1 ] || fail "a run notes its validation data once"
expect 0 eval plain --data dataset --json
expect_text err 'note: dataset/README.md is text beside JSON lines'
python3 -c 'import json; json.load(open("out"))' || fail "eval --json: standard output holds more than JSON"
expect 0 eval plain --data marked.txt
[ -s err ] && fail "eval of a text has something to note"

expect 0 train.json --num-ranks 2 --run-dir weighted 'data.train=["corpus.jsonl","folder"]' 'data.weights=[3,1]' \
  data.validation_fraction=0.1
[ "$(weights plain)" = "$(weights weighted)" ] && fail "weights of data changed nothing"

refused() { # code, text in the error, overrides...
  local code=$1 text=$2
  shift 2
  rm -rf refused
  expect "$code" train.json --num-ranks 2 --run-dir refused "$@"
  grep -q -- "$text" err || fail "err does not match: $text"
  grep -qi "make room\|restart\|again in" err && fail "$*: tried again, or spoke of room"
  [ -e refused/final ] && fail "$*: trained"
}
mkfifo pipe
mkdir nothing circle circle2
cp corpus.txt circle && ln -s . circle/again && ln -s self circle2/self
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
refused 78 'table.parquet.*DS_WITH_ARROW' 'data.train=["table.parquet"]'
refused 65 'array.npy.*NumPy' 'data.train=["array.npy"]'
refused 65 'noise.dat.*no text' 'data.train=["noise.dat"]'
refused 65 "list.json:1: the file is one JSON document.*jq -c '.\[\]'" 'data.train=["list.json"]'
refused 65 "squad.json:1: there is no field \"text\".*jq -c '.data\[\]'" 'data.train=["squad.json"]'
refused 65 'utf16.txt.*iconv -f UTF-16 -t UTF-8' 'data.train=["utf16.txt"]'
refused 65 'pointer.txt.*git lfs pull' 'data.train=["pointer.txt"]'
refused 65 'empty.txt: the file is empty' 'data.train=["corpus.txt","empty.txt"]'
refused 65 'nothing: the folder holds no file' 'data.train=["nothing"]'
refused 66 'x\*.txt: the pattern matches no file' 'data.train=["x*.txt"]'
refused 66 'missing.txt' 'data.train=["missing.txt"]'
refused 65 'bomb.gz.*more than 200 times' 'data.train=["bomb.gz"]'
refused 65 'broken.gz.*truncated' 'data.train=["broken.gz"]'
refused 65 'body.jsonl:1: there is no field "text"' 'data.train=["body.jsonl"]'
refused 65 'pipe: it is a FIFO' 'data.train=["pipe"]'
refused 65 'pipe: it is a FIFO' 'data.train=["corpus.txt","pip*"]'
refused 65 'circle/again.*symbolic link' 'data.train=["circle"]'
refused 66 'circle2/self: Too many levels of symbolic links' 'data.train=["circle2"]'
refused 65 'socket: it is a socket' 'data.train=["socket"]'
refused 65 '/dev/zero: it is a device' 'data.train=["/dev/zero"]'
refused 65 'pipe: it is a FIFO' data.tokenizer=pipe
refused 66 'nothing: the folder holds no tokenizer' data.tokenizer=nothing
refused 66 'missing.json' data.tokenizer=missing.json
refused 78 'data.weights: has 1' 'data.train=["corpus.txt","folder"]' 'data.weights=[1]'

# Model folders: sizes are compared with the weights before anything is built by them.
cp -r plain/final model
broken_model() { # code, text, sed expression for config.json
  sed "$3" plain/final/config.json > model/config.json
  refused "$1" "$2" '~model.family' '~model.n_layer' '~model.n_head' '~model.n_embd' '~model.n_positions' \
    '~model.vocab_size' 'model.folder=model'
}
broken_model 65 'config.json: n_layer: got 2147483647, expected integer >= 1' 's/"n_layer": 1/"n_layer": 2147483647/'
broken_model 65 '"n_layer": 4000, but the weights beside it have 1' 's/"n_layer": 1/"n_layer": 4000/'
rm model/config.json && mkfifo model/config.json
refused 65 'config.json: it is a FIFO' '~model.family' '~model.n_layer' '~model.n_head' '~model.n_embd' \
  '~model.n_positions' '~model.vocab_size' 'model.folder=model'
refused 78 'model.n_layer: got 100000' model.n_layer=100000

# The configuration itself, and what it includes.
expect 65 pipe --run-dir refused
expect_text err "pipe: it is a FIFO"
echo '{"include": ["pipe"]}' > including.json
expect 65 including.json --run-dir refused
expect_text err "pipe: it is a FIFO"
sed 's/corpus.txt/cor\\u0000pus.txt/' train.json > nul.json
expect 78 nul.json --run-dir refused
expect_text err "data.train: got"
expect_text err "NUL"

finish
