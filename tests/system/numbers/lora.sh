# Low-rank adapters in real processes: a small part of a model trains on two ranks, a killed run goes on with equal bits, other
# adapters are refused on resume, final/ is a folder that generates, evaluates and is merged, and another run begins with it.
golden=$(readlink -f "$(dirname "$0")/../../golden/supervised")
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
cp -r "$golden/model" model
cp "$golden"/chat.jsonl .
cat > lora.json <<'JSON'
{"model": "model",
 "data": {"train": "chat.jsonl", "format": "chat", "sequence_length": 100},
 "lora": {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj", "down_proj"]},
 "train": {"steps": 12, "save_every": 4}, "train_batch_size": 6, "zero_optimization": {"stage": 3},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}
JSON
last() { sed -n 's/.*"'"$2"'": \([-+.0-9e]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -1; }
near() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-8) }" || fail "$3: $1, expected $2"; }

expect 0 lora.json --num-ranks 1 --run-dir one
expect_text out "1.1 K train, 20 K are frozen"
expect 0 lora.json --num-ranks 2 --run-dir two
near "$(last two loss)" "$(last one loss)" "two ranks"
[ "$(stat -c %s two/final/adapter_model.safetensors)" -lt 9000 ] || fail "the folder has more than the adapters"
[ ! -e two/final/model.safetensors ] || fail "the folder has the model's own weights"

# A rank that is killed in a step: the run goes on by itself, with the bits that it would have had.
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 lora.json --num-ranks 2 --run-dir killed
cmp two/final/adapter_model.safetensors killed/final/adapter_model.safetensors || fail "a run that went on leaves other adapters"
# Adapters that compute something else are another model.
expect 77 lora.json --num-ranks 2 --run-dir two lora.lora_alpha=16 train.steps=14
expect_text err "lora.lora_alpha was 8"
expect_text err "is of another model"
expect 77 lora.json --num-ranks 2 --run-dir two '~lora' train.steps=14 --accept-changes

# Checkpoints have what trains alone, on disk and in memory; what lacks the rest of them takes it from the model's folder.
has_base() { grep -aq "model.norm.weight/weight" "$1"/checkpoints/"$2"/*; }
if has_base two global_step12; then fail "a checkpoint of adapters has the model's own weights"; fi
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 lora.json --num-ranks 2 --run-dir in_memory train.save_every=0 \
  train.save_in_memory_every=2
cmp two/final/adapter_model.safetensors in_memory/final/adapter_model.safetensors || fail "from memory a run leaves other adapters"
expect 0 generate two/checkpoints/global_step12 --prompt "hello" --max-tokens 8 --temperature 0
cp out of_tag.txt
expect 0 generate two/final --prompt "hello" --max-tokens 8 --temperature 0
cmp out of_tag.txt || fail "a checkpoint generates something else than final/"
expect 0 lora.json --num-ranks 2 --run-dir full checkpoint.exclude_frozen_parameters=false train.steps=6
has_base full global_step4 || fail "a checkpoint that is to be whole is not"
expect 0 lora.json --num-ranks 1 --run-dir full
near "$(last full loss)" "$(last two loss)" "from a whole checkpoint"
if has_base full global_step12; then fail "a checkpoint goes on being whole"; fi
mv model/model.safetensors kept.safetensors
expect 66 generate two/checkpoints/global_step12 --prompt "hello" --max-tokens 8
expect_text err "it has what trained alone (checkpoint.exclude_frozen_parameters)"
expect 66 lora.json --num-ranks 2 --run-dir two train.steps=14
mv kept.safetensors model/model.safetensors
cp model/model.safetensors kept.safetensors
printf '\077' | dd of=model/model.safetensors bs=1 seek=$(($(stat -c %s model/model.safetensors) - 2)) conv=notrunc 2> /dev/null
for verb in "generate two/checkpoints/global_step12 --prompt hello" "merge two/checkpoints/global_step12 changed"; do
  expect 77 $verb
  expect_text err "its adapters were trained beside other weights"
done
expect 77 lora.json --num-ranks 2 --run-dir two train.steps=14
expect_text err "the weights of model.folder, which adapters are beside, are others"
mv kept.safetensors model/model.safetensors
expect 78 check lora.json '~lora' checkpoint.exclude_frozen_parameters=true
expect_text out "checkpoint.exclude_frozen_parameters: is for lora"

# What is left generates and is evaluated with the model that it names, and merged computes the same.
expect 0 convert two/final merged
expect 0 convert two merged_run
cmp merged/model.safetensors merged_run/model.safetensors || fail "the run is merged into other weights than its final/"
expect 0 generate two --prompt "hello" --max-tokens 8 --temperature 0
cp out adapted.txt
expect 0 generate merged --prompt "hello" --max-tokens 8 --temperature 0
cmp out adapted.txt || fail "merged adapters generate something else"
printf "hello, how are you today?\nI am well.\n" > plain.txt
expect 0 eval two/final --data plain.txt --json
expect_text out '"loss":'

# Another run begins with them: at a rate of 0 it leaves what it began with.
cat > again.json <<'JSON'
{"model": "model", "data": {"train": "chat.jsonl", "format": "chat", "sequence_length": 100},
 "lora": {"adapter": "two/final"}, "train": {"steps": 2}, "train_batch_size": 6,
 "optimizer": {"type": "AdamW", "params": {"lr": 0}}}
JSON
expect 0 again.json --num-ranks 1 --run-dir again
cmp two/final/adapter_model.safetensors again/final/adapter_model.safetensors || fail "other adapters than those it began with"

# A first configuration is written, and trains adapters.
expect 0 init --finetune model --data chat.jsonl --lora --steps 2 --output tune.json
expect 0 tune.json --num-ranks 2 --run-dir tuned
[ -e tuned/final/adapter_model.safetensors ] || fail "no adapters were trained"
expect 0 merge tuned whole
[ -e whole/model.safetensors ] || fail "nothing was merged"

# A base in 4 bits: one rank and two have equal losses, a killed run goes on with equal bits, and what is left generates.
base="lora.base_format=nf4 lora.lora_dropout=0"
expect 0 plan lora.json --num-ranks 1 $base
expect_text out "of them nf4, 4.125 bits each"
expect 0 lora.json --num-ranks 1 --run-dir nf4_one $base
expect_text out "of them nf4, 4.125 bits each"
expect 0 lora.json --num-ranks 2 --run-dir nf4_two $base
near "$(last nf4_two loss)" "$(last nf4_one loss)" "two ranks over nf4"
DSL_FAILPOINTS="train.step_begin@rank1@epoch1=6*off->kill" expect 0 lora.json --num-ranks 2 --run-dir nf4_killed $base
cmp nf4_two/final/adapter_model.safetensors nf4_killed/final/adapter_model.safetensors ||
  fail "a run over nf4 that went on leaves other adapters"
expect 77 lora.json --num-ranks 2 --run-dir nf4_two $base lora.base_format=int8 train.steps=14
expect_text err "lora.base_format: the base was kept nf4, 4.125 bits each, and is kept int8, 8.125 bits each"
expect 0 lora.json --num-ranks 2 --run-dir nf4_two lora.load_in_4bit=true lora.bnb_4bit_quant_type=nf4 lora.lora_dropout=0
expect 77 lora.json --num-ranks 2 --run-dir nf4_two $base tensor_parallel.autotp_size=2 zero_optimization.stage=1 train.steps=14
expect_text err "blocks of lora.base_format are those of tensor-parallel ranks, and these were 1 and are 2"
expect 0 generate nf4_two --prompt "hello" --max-tokens 8 --temperature 0
expect 0 eval nf4_two --data plain.txt --json
expect 0 merge nf4_two nf4_merged
expect 0 generate nf4_merged --prompt "hello" --max-tokens 8 --temperature 0
expect 78 check lora.json lora.load_in_4bit=true lora.base_format=int8
expect_text out "lora.load_in_4bit: and another key of lora name different formats"
expect 78 check lora.json lora.q_bits=6
expect_text out "lora.q_bits: 6, expected 8"

# What does not fit is named.
expect 78 check lora.json lora.target_modules=query
expect_text out "lora.target_modules: query fit no linear layer"
expect 78 check lora.json lora.target_modules=embed_tokens
expect_text out "adapters of tables, norms and heads are not built"
expect 78 check lora.json lora.modules_to_save=lm_hed
expect_text out "lora.modules_to_save: \"lm_hed\" is no module"
expect 78 check lora.json lora.layers_to_transform=7
expect_text out "lora.layers_to_transform: 7, but the model has 2 blocks"
expect 78 check lora.json model=two/final
expect_text out "has adapters alone"
rm two/final/adapter_model.safetensors
expect 66 again.json --num-ranks 1 --run-dir missing
expect_text err "no adapter_model.safetensors is beside adapter_config.json"
finish
