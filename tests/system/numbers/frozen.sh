# A model of which a part trains, in real processes: the rest keeps its bytes, also over a restart, and what is asked
# for wrongly is told before anything starts.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD
seq 1 4000 > corpus.txt
cat > base.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256,
           "resid_pdrop": 0.1, "embd_pdrop": 0, "attn_pdrop": 0},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
 "train": {"steps": 4}, "train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}}
JSON
sed 's/"model": {.*/"model": "base\/final",/; /"resid_pdrop"/d; s/"steps": 4/"steps": 8, "train_only": ["transformer.h.1.*"], "freeze": ["*.ln_?.*"]/' \
  base.json > tune.json
cat > same.py <<'PY'
"""same.py A B: the names of tensors that have other bytes in the second file."""
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: data[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]]
            for name, at in header.items() if name != "__metadata__"}
first, second = (tensors(path + "/model.safetensors") for path in sys.argv[1:])
assert first.keys() == second.keys(), first.keys() ^ second.keys()
print("\n".join(sorted(name for name in first if first[name] != second[name])))
PY
changed() { python3 same.py base/final "$1/final"; }

expect 0 base.json --num-ranks 2 --run-dir base
expect 0 plan tune.json --num-ranks 2
expect_text out "M train, "
expect_text out "M are frozen)"
expect 0 tune.json --num-ranks 2 --run-dir whole +zero_optimization.stage=1
expect_text out " are frozen)"
[ "$(changed whole | wc -l)" = 8 ] || fail "these have changed: $(changed whole)"
changed whole | grep -v "transformer.h.1.\(attn\|mlp\)" && fail "what is frozen has changed"
expect 0 tune.json --num-ranks 2 --run-dir three +zero_optimization.stage=3 +zero_optimization.stage3_param_persistence_threshold=0
cmp whole/final/model.safetensors three/final/model.safetensors || fail "stage 3 leaves other weights"

expect 0 tune.json --num-ranks 2 --run-dir died +zero_optimization.stage=1 train.steps=5
expect 0 tune.json --num-ranks 2 --run-dir died +zero_optimization.stage=1
cmp whole/final/model.safetensors died/final/model.safetensors || fail "a run that went on leaves other weights"

# A folder of DeepSpeed's has state of what has trained.
expect 0 convert whole universal --to universal
state=universal/global_step8/zero
[ -e "$state/transformer.h.1.mlp.c_fc.weight/exp_avg.pt" ] || fail "no state of what has trained"
[ -e "$state/transformer.wte.weight/fp32.pt" ] || fail "no weight of what is frozen"
[ -e "$state/transformer.wte.weight/exp_avg.pt" ] && fail "state of what is frozen"

expect 0 tune.json --num-ranks 2 --run-dir half +bf16.enabled=true +train.final_dtype=bf16
expect 77 tune.json --num-ranks 2 --run-dir whole train.steps=9 'train.freeze=["*.ln_1.*"]'
expect_text err "was saved with other parameters frozen: "
expect_text err "put train.freeze, train.train_only and lora back"

expect 78 check tune.json 'train.freeze=["h.1.*"]'
expect_text out 'train.freeze: "h.1.*" fits no parameter of the model'
expect_text out 'did you mean "*h.1.*"'
expect 78 check tune.json 'train.freeze=["*"]'
expect_text out "nothing would train"
expect 78 plan tune.json --num-ranks 2 --device-memory 1GiB
expect_text err "leave them out, or plan without --device-memory"
expect 78 check tune.json +eigenvalue.enabled=true +eigenvalue.layer_name=h +eigenvalue.layer_num=2
expect_text out "train.freeze"
finish
