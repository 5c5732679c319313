# A Hugging Face folder as the model, through the whole program: its tokenizer is the run's; what it says of itself is
# in final/, which loads wherever the folder did; and what does not fit together is one error before anything is trained.
here=$(dirname "$(readlink -f "$0")")
. "$here/launcher.sh"
unset DSLAUNCH_RANKD
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
python3 "$here/model_folder.py" || fail "no folders to test with"

for model in gpt2 llama; do
  cat > "$model.json" <<JSON
{"model": "$model", "data": {"train": ["corpus.txt"], "sequence_length": 16},
 "train": {"steps": 2}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 3}}
JSON
done
changed() { python3 -c "import model_folder as m; $1" || fail "python: $1"; }
weights() { sha256sum < "$1/final/model.safetensors"; }
differ() { [ "$(weights "$1")" != "$(weights "$2")" ] || fail "$1 and $2 have the same weights"; }
same() { [ "$(weights "$1")" = "$(weights "$2")" ] || fail "$1 and $2 have other weights"; }
stored_as() {  # stored_as <run> <dtype> <name in config.json>
  changed "assert m.dtypes('$1/final/model.safetensors') == {'$2'}, m.dtypes('$1/final/model.safetensors')"
  grep -q "dtype\": \"$3\"" "$1/final/config.json" || fail "$1: config.json does not say $3"
}
refused() {  # refused <code> <text in the error> <words...>
  local code=$1 text=$2
  shift 2
  rm -rf refused
  expect "$code" "$@" --num-ranks 2 --run-dir refused
  grep -q -- "$text" err || fail "err does not match: $text"
  [ "$(grep -c '^error: ' err)" -eq 1 ] || fail "$*: not exactly one error"
  [ -s refused/metrics.jsonl ] && fail "$*: trained"
}
with_folder() {  # a copy of the folder to change: with_folder <name>
  rm -rf model
  cp -r "$1" model
}

# The folder's tokenizer, and that it is said; bytes only by name.
for model in gpt2 llama; do
  expect 0 $model.json --num-ranks 2 --run-dir $model-run
  expect_text out "tokenizer: that of the model's folder, 265 tokens (the model has 300)"
  expect 0 $model.json --num-ranks 2 --run-dir $model-named data.tokenizer=$model/tokenizer.json
  same $model-run $model-named
  stored_as $model-run F32 float32
  for file in generation_config.json tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json \
    vocab.json merges.txt chat_template.jinja additional_chat_templates/tools.jinja; do
    cmp "$model/$file" "$model-run/final/$file" || fail "$model: final/$file is not the folder's"
  done
  changed "
import json
was, now = (json.load(open(f + '/config.json')) for f in ('$model', '$model-run/final'))
was |= {k: 'float32' for k in ('dtype', 'torch_dtype') if k in now}
assert was == now, (was, now)
assert m.header('$model/model.safetensors').keys() == m.header('$model-run/final/model.safetensors').keys()"
  # What was written is a folder like the one that was given.
  expect 0 $model.json --num-ranks 2 --run-dir $model-again model=$model-run/final
  cmp $model-run/final/config.json $model-again/final/config.json || fail "$model: config.json changes by itself"
done
expect 0 gpt2.json --num-ranks 2 --run-dir bytes data.tokenizer=byte
differ gpt2-run bytes
[ -e bytes/final/tokenizer.json ] && fail "a run on bytes invents a tokenizer"
expect 0 gpt2.json --num-ranks 2 --run-dir lines 'data.train=["corpus.jsonl"]'
differ gpt2-run lines

# Text from each of them.
for source in gpt2-run gpt2-run/final bytes bytes/final; do
  expect 0 generate $source --prompt "the" --max-tokens 4
done
cp -r bytes/final apart
expect 66 generate apart --prompt "the" --max-tokens 4
expect_text err "apart: the folder holds no tokenizer"
expect 0 generate apart --prompt "the" --max-tokens 4 --tokenizer byte

# A folder without a tokenizer, or with one of another form: never bytes by itself. Token ids need none.
no_tokenizer() {
  with_folder gpt2
  (cd model && rm -r tokenizer* special_tokens_map.json added_tokens.json vocab.json merges.txt)
}
no_tokenizer
refused 66 'model: the folder holds no tokenizer.*"byte"' gpt2.json model=model
expect 0 gpt2.json --num-ranks 2 --run-dir ids model=model 'data.train=["tokens.bin"]'
[ -e ids/final/tokenizer.json ] && fail "a run on token ids invents a tokenizer"
echo > model/tokenizer.model
refused 65 'model/tokenizer.model: no model of SentencePiece' gpt2.json model=model
expect 0 gpt2.json --num-ranks 2 --run-dir ids model=model 'data.train=["tokens.bin"]' --resume never
cmp model/tokenizer.model ids/final/tokenizer.model || fail "final/ lacks a tokenizer that is not read here"
no_tokenizer
cp gpt2/vocab.json gpt2/merges.txt model
expect 0 gpt2.json model=model --num-ranks 2 --run-dir apart
for name in vocab.json merges.txt; do
  cmp "gpt2/$name" "apart/final/$name" || fail "final/ lacks a vocabulary that came apart"
done
changed "m.change('model/config.json', tokenizer_class='WhisperTokenizer')"
refused 78 'vocab.json: what the tokenizer of "WhisperTokenizer" does.*save_pretrained' gpt2.json model=model
for key in truncation padding; do
  with_folder gpt2
  changed "m.change('model/tokenizer.json', $key={'max_length': 8})"
  expect 0 gpt2.json model=model --num-ranks 2 --run-dir "$key"
  expect_text out "\"$key\" of the tokenizer is not applied"
done

# A tokenizer of more tokens than the model has.
cat > small.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16, "vocab_size": 264},
 "data": {"train": ["corpus.txt"], "tokenizer": "gpt2"}, "train": {"steps": 2}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW"}}
JSON
refused 78 "data.tokenizer: .*gpt2 has 265 tokens, but the model's vocab_size is 264" small.json
expect 0 small.json --num-ranks 2 --run-dir small model.vocab_size=265
grep -q '"eos_token_id": 264' small/final/config.json || fail "a new model has not its tokenizer's end of text"
grep -q '"eos_token_id": null' small/final/config.json && fail "eos_token_id twice"
refused 78 "data.tokenizer: byte has 256 tokens, but the model's vocab_size is 255" small.json data.tokenizer=byte \
  model.vocab_size=255

# The number type of final/.
expect 0 gpt2.json --num-ranks 2 --run-dir bf16 +bf16.enabled=true
stored_as bf16 F32 float32
for key in stage3_gather_16bit_weights_on_model_save gather_16bit_weights_on_model_save \
  stage3_gather_fp16_weights_on_model_save; do
  rm -rf gathered
  expect 0 gpt2.json --num-ranks 2 --run-dir gathered +bf16.enabled=true +zero_optimization.$key=true
  stored_as gathered BF16 bfloat16
done
expect 0 gpt2.json --num-ranks 2 --run-dir gathered-fp32 +zero_optimization.gather_16bit_weights_on_model_save=true
expect_text out "has no effect without fp16 or bf16"
stored_as gathered-fp32 F32 float32
expect 0 gpt2.json --num-ranks 2 --run-dir half +train.final_dtype=fp16
stored_as half F16 float16
with_folder gpt2
changed "
import struct
tensors = m.drawn(m.gpt2_shapes(), 1)  # the last position is not trained
shape, data = tensors['transformer.wpe.weight']
tensors['transformer.wpe.weight'] = (shape, data[:-4] + struct.pack('<f', 1e6))
m.write_tensors('model/model.safetensors', tensors)"
expect 77 gpt2.json --num-ranks 2 --run-dir too-large model=model +train.final_dtype=fp16
expect_text err "transformer.wpe.weight has an element"
[ -e too-large/final/model.safetensors ] && fail "infinite weights were written"
expect 0 gpt2.json --num-ranks 2 --run-dir too-large model=model +train.final_dtype=bf16
stored_as too-large BF16 bfloat16
refused 78 "train.final_dtype: contradicts" gpt2.json +bf16.enabled=true +train.final_dtype=fp32 \
  +zero_optimization.gather_16bit_weights_on_model_save=true

# Other names of the sizes; and the output beside the embeddings it is tied to.
with_folder gpt2
changed "m.change('model/config.json', n_head=None, n_embd=None, n_layer=None, n_positions=None,
  num_attention_heads=2, hidden_size=32, num_hidden_layers=1, max_position_embeddings=32)"
expect 0 gpt2.json --num-ranks 2 --run-dir aliases model=model
same gpt2-run aliases
changed "m.change('model/config.json', n_head=4)"
refused 65 '"n_head" and "num_attention_heads" are two names of one size, but differ' gpt2.json model=model
head_of() {  # head_of <seed of lm_head.weight, or none: the embeddings>
  with_folder gpt2
  changed "
tensors = m.drawn(m.gpt2_shapes(), 1)
tensors['lm_head.weight'] = (m.drawn({'w': [m.VOCABULARY, 32]}, $1)['w'] if $1 else tensors['transformer.wte.weight'])
m.write_tensors('model/model.safetensors', tensors)"
}
head_of 0
expect 0 gpt2.json --num-ranks 2 --run-dir tied model=model
same gpt2-run tied
head_of 7
refused 65 'lm_head.weight differs from transformer.wte.weight' gpt2.json model=model
changed "m.change('model/config.json', tie_word_embeddings=False)"
expect 0 gpt2.json --num-ranks 2 --run-dir untied model=model
changed "assert 'lm_head.weight' in m.header('untied/final/model.safetensors')"

# The ids of tokens are no part of the architecture; the tokenizer is, by the data it makes.
with_folder gpt2
expect 0 gpt2.json --num-ranks 2 --run-dir resumed model=model
changed "m.change('model/config.json', bos_token_id=1, eos_token_id=2, pad_token_id=3, torch_dtype='bfloat16')"
expect 0 gpt2.json --num-ranks 2 --run-dir resumed model=model train.steps=3
expect_text out "resumed step=2"
grep -q "another model\|other settings" out err && fail "ids of tokens count as architecture"
grep -q '"eos_token_id": 2' resumed/final/config.json || fail "final/ has the ids of another folder"
expect 77 gpt2.json --num-ranks 2 --run-dir resumed model=model train.steps=4 data.tokenizer=byte
expect_text err "the training data are others"
expect 0 gpt2.json --num-ranks 2 --run-dir resumed model=model train.steps=4 data.tokenizer=byte --accept-changes
[ -e resumed/final/tokenizer.json ] && fail "the tokenizer of an earlier export stays"

finish
