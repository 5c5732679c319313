# `dslaunch check` looks at what a configuration names, and `run` says the same before it makes anything.
golden=$(readlink -f "$(dirname "$0")/../golden")
. "$(dirname "$0")/launcher.sh"
export DSLAUNCH_RANKD="$bin/rankd"

# The whole of it is well.
head -c 4096 /dev/urandom | base64 > corpus.txt
expect 0 check train.json
expect_text out "train.json: no errors, no notes"

# A file of DeepSpeed alone is a valid file; the notes say what a run needs.
echo '{"train_batch_size": 8, "zero_optimization": {"stage": 1}}' > deepspeed.json
expect 0 check deepspeed.json
expect_text out "note: data.train: is needed to train"

# Everything that is wrong, at once: duplicate keys, names, values, files, lengths, activations.
: > empty.txt
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' > picture.txt
cat > wrong.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 256},
 "data": {"train": ["gone.txt", "empty.txt", "picture.txt"], "validation": "nowhere/*.txt",
          "tokenizer": "tokens", "sequence_length": 9},
 "train": {"steps": 5}, "train_batch_size": 8, "train_batch_size": 16, "gradient_clip": 1,
 "optimizer": {"type": "AdamW"}, "nebula": {"enabled": true}}
JSON
expect 78 check wrong.json
for text in 'wrong.json:4:48: duplicate key "train_batch_size"' \
            'wrong.json:4:72: gradient_clip: unknown key, did you mean "gradient_clipping"?' \
            'nebula: not available in this build' \
            'wrong.json:2:20: data.train: ' gone.txt 'empty.txt: the file is empty' picture.txt \
            'data.validation: ' 'data.tokenizer: ' 'data.sequence_length: 9, but the model has 8 positions'; do
  expect_text out "$text"
done
expect 78 check train.json model.activation_function=gelu_nu
expect_text out "gelu_new"

# A model folder.
expect 78 check train.json '~model' model=nowhere
expect_text out "model.folder: "
mkdir mamba && echo '{"architectures": ["MambaForCausalLM"], "model_type": "mamba"}' > mamba/config.json
expect 78 check train.json model=mamba
expect_text out "MambaForCausalLM"

# What other programs take for a model or a configuration is told what it is here.
mkdir pickled && echo '{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 256}' > pickled/config.json
echo x > pickled/pytorch_model.bin
expect 78 check train.json '~model' model=pickled data.tokenizer=byte
expect_text out "pickled/pytorch_model.bin: neither a zip archive nor a pickle"
python3 - <<'PY'
import os, pickle
class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)
pickle.dump(Runs(), open("pickled/pytorch_model.bin", "wb"), protocol=2)
PY
expect 78 check train.json '~model' model=pickled data.tokenizer=byte
expect_text out "'posix'.'system', which is refused"
[[ ! -e ran ]] || fail "a pickle was run"
expect 78 check train.json '~model' model=pickled/pytorch_model.bin data.tokenizer=byte
expect_text out "a model is a folder"
echo '[{"text": "a"}]' > list.json
expect 78 check list.json
expect_text out "data.train=FILE.jsonl"

# For programs.
expect 78 check wrong.json --json
python3 - <<'PY' || fail "check --json"
import json
report = json.load(open("out"))
assert report["ok"] is False and report["config"] == "wrong.json"
paths = [p["path"] for p in report["problems"]]
assert "data.train" in paths and "nebula" in paths, paths
assert all(p["message"] and (p["line"] is None or p["line"] > 0) for p in report["problems"] + report["notes"])
PY
expect 0 check train.json --json
python3 -c 'import json; assert json.load(open("out"))["ok"] is True' || fail "check --json of a good file"
expect 0 explain train.json train.steps --json
python3 -c 'import json; assert json.load(open("out"))["values"][0]["value"] == 5' || fail "explain --json"

# A folder is looked at by the engine: what is in it, and what of that is not supported.
expect 0 check "$golden/token_classifiers/bert"
expect_text out "BertForTokenClassification (bert): 2 layers"
cp -r "$golden/token_classifiers/bert" folder
sed -i 's/"bert"/"mamba"/; s/"BertForTokenClassification"/"MambaForCausalLM"/' folder/config.json
expect 78 check folder --json
python3 -c 'import json; j = json.load(open("out")); assert not j["ok"] and j["problems"][0]["part"] == "model"' || fail "check of a folder --json"
expect 2 check folder train.steps=1

# Without an engine the configuration is checked all the same.
DSLAUNCH_RANKD=/nowhere/rankd expect 0 check train.json
expect_text out "were not looked at: /nowhere/rankd is missing"

# A run says it before anything is made, with the code of what is wrong.
expect 66 train.json data.train=gone.txt
expect_text err "data.train: "
expect 65 train.json data.train=empty.txt
expect 78 train.json data.sequence_length=9
[ -e runs ] && fail "a run that could not start left a run directory"

# A look that does not come to its end is no reason not to stop, and large compressed data none not to come to it.
printf '#!/bin/sh\nexec sleep 600\n' > slow && chmod +x slow
: > out
DSLAUNCH_RANKD=$PWD/slow dslaunch train.json > out 2> err &
launcher=$!
wait_until "the look" pgrep -P "$launcher" sleep > /dev/null
kill -TERM "$launcher"
expect_end 143
[ -e runs ] && fail "a run that was stopped before it began left a run directory"
head -c 30000000 /dev/zero | tr '\0' a | gzip > long.txt.gz
expect 0 check train.json data.train=long.txt.gz

touch runs
expect 78 check train.json
expect_text out "runs are kept in a folder of this name, and this is none"
finish
