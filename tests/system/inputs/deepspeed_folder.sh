# A folder of DeepSpeed's checkpoints, wherever one may be given: one error that names it, and nothing is made or trained.
. "$(dirname "$0")/../launcher.sh"
unset DSLAUNCH_RANKD

seq 1 2000 > corpus.txt
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 2}, "train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
JSON
mkdir -p ds/global_step10 run
for file in mp_rank_00_model_states.pt bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt; do
  head -c 100 /dev/urandom > ds/global_step10/$file
done
printf global_step10 > ds/latest
touch ds/zero_to_fp32.py
cp -r ds run/checkpoints
find ds | sort > before

named() { # code, words...: one error that says what it is
  local code=$1
  shift
  expect "$code" "$@"
  [ "$(grep -v '^{"event"' err | grep -c "is a folder of DeepSpeed's checkpoints.*dslaunch convert.*OUT --config MODEL")" -eq 1 ] ||
    fail "$*: DeepSpeed's folder is not named once"
  [ "$(grep -c '^error: ' err)" -eq 1 ] || fail "$*: not exactly one error"
}

for folder in ds ds/global_step10; do
  named 78 train.json model=$folder data.tokenizer=byte --num-ranks 1 --run-dir none
  named 78 train.json --run-dir $folder --num-ranks 1
  named 78 train.json --run-dir $folder --resume required --num-ranks 1
  named 78 eval $folder --data corpus.txt
  named 78 generate $folder --prompt 1
done
named 78 train.json --run-dir ds --resume global_step10 --num-ranks 1
named 78 generate run --prompt 1
named 77 train.json --run-dir run --num-ranks 1
named 77 train.json --run-dir run --resume required --num-ranks 1
named 66 train.json --run-dir run --resume global_step10 --num-ranks 1
named 78 plan train.json model=ds data.tokenizer=byte
[ -e none ] && fail "a refused model made a run directory"
find ds | sort | diff before - || fail "something was left in DeepSpeed's folder"

# Who begins anew beside them may.
expect 0 train.json --run-dir run --resume never --num-ranks 1

finish
