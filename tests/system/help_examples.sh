# Every example of every verb's --help is run, so that none can go stale; a verb without examples is an error.
# They run for real, with small files under the names that they use, but for these:
#   * runs on the hosts of a hostfile get --dry-run: everything is read and planned, nothing is started;
#   * paths outside the folder of the test (/shared, /var/lib) become paths inside;
#   * token ids become ids that the small tokenizer here has.
tests=$(realpath "$(dirname "$0")")
. "$tests/launcher.sh"
unset DSLAUNCH_RANKD

seq 1 4000 > corpus.txt
head -200 corpus.txt > held_out.txt
printf 'In the beginning\nAnd then\n' > prompts.txt
printf '{"id": 1, "prompt": "In the beginning"}\n{"text": "And then"}\n' > prompts.jsonl
echo '[{"role": "user", "content": "Hello"}]' > conversations.json
cp "$tests/../golden/supervised/chat.jsonl" .
mkdir shards corpus
printf '{"text": "one"}\n{"text": "two"}\n' > corpus/a.jsonl
for part in 1 2; do seq 1 500 | sed 's/.*/{"text": "line & of it"}/' > shards/$part.jsonl; done
gzip -c shards/1.jsonl > docs.jsonl.gz
cat > train.json <<'JSON'
{"model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 256},
 "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
 "train": {"steps": 4}, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "zero_optimization": {"stage": 0}}
JSON
printf 'node-1 slots=4\nnode-2 slots=4\n' > hosts
# A Hugging Face folder with a tokenizer and room for 1024 positions.
PYTHONDONTWRITEBYTECODE=1 python3 "$tests/model_folder.py" || fail "no folder with a tokenizer"
sed -e 's/"n_positions": 32, "vocab_size": 256/"n_positions": 1024, "vocab_size": 265/' -e 's/"byte"/"gpt2"/' train.json > folder.json
dslaunch folder.json --num-ranks 1 --run-dir runs/folder > out 2> err || fail "the run that makes the folder"
mkdir -p path/to/huggingface
cp -rL runs/folder/final path/to/huggingface/folder
cp gpt2/tokenizer.json .
echo '{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}' > path/to/huggingface/folder/chat_template.jinja
cp -r path/to/huggingface/folder qwen3
dslaunch train.json --run-dir runs/mine > out 2> err || fail "the run that the examples look at"

# A model that scores classes of texts.
printf 'sentence\tlabel\nIn the beginning\tgood\nAnd then\tbad\n' > test.tsv
cat > classes.json <<'JSON'
{"model": {"family": "bert", "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32,
           "max_position_embeddings": 32, "vocab_size": 256, "labels": ["good", "bad"]},
 "data": {"train": ["test.tsv"], "tokenizer": "byte", "classification": {"text": "sentence"}},
 "train": {"steps": 1}, "train_batch_size": 2, "optimizer": {"type": "AdamW"}}
JSON
dslaunch classes.json --num-ranks 1 --run-dir runs/classes > out 2> err || fail "the run that scores classes"

# Adapters of a model, and a run that trains some.
mkdir -p path/to
cp -rL path/to/huggingface/folder path/to/model
sed 's/"train_micro/"lora": {"r": 2}, "train_micro/; s/"model": {.*},$/"model": "path\/to\/model",/; s/"byte"/"path\/to\/model"/' \
  train.json > adapted.json
dslaunch adapted.json --num-ranks 1 --run-dir runs/adapted > out 2> err || fail "the run that trains adapters"
cp -r runs/adapted/final path/to/adapters

# What a verb needs beyond that.
prepare() {
  case $1 in
    elastic)
      cp train.json plain.json
      echo '{"elasticity": {"enabled": true, "max_train_batch_size": 96, "micro_batch_sizes": [2], "min_gpus": 1,
             "max_gpus": 32, "version": 0.1}}' > train.json ;;
    generate) mv hosts away && printf 'localhost slots=2\n' > hosts ;;
    inspect) cp "$tests/../golden/torch/state.pt" checkpoint.pt ;;
    convert)
      cp -r "$tests/../golden/deepspeed/zero2_fp32" ds_out
      mv path/to/model away && mkdir path/to/model && cp ds_out/config.json path/to/model
      cp -r path/to/huggingface/folder old_folder
      mkdir log124M && cp "$tests/../golden/llmc/model_00000004.bin" log124M/model_00019560.bin
      echo 'transformer\.(.*) => $1' > names.txt ;;
    preflight) printf 'localhost slots=2\n' > hosts ;;
    stack|ctl|trace)
      dslaunch run train.json train.steps=10000000 --run-dir runs/mine --resume never > job.out 2>&1 &
      running=$!
      wait_at_most 30 "ranks that train" training_now ;;
  esac
}
training_now() { dslaunch status runs/mine --json 2> /dev/null | grep -q '"phase": "train"'; }
put_back() {
  case $1 in
    elastic) mv plain.json train.json ;;
    generate) mv away hosts ;;
    convert) rm -r path/to/model && mv away path/to/model ;;
    stack|ctl|trace)
      dslaunch ctl stop runs/mine > /dev/null 2>&1
      wait "$running" ;;
  esac
}

# `dslaunch init` asks on a terminal: the data, and the defaults of everything else; a talk with a model is ended.
cat > answering.py <<'PY'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
answers = [b"corpus.txt\n"]
while True:
    try:
        got = os.read(terminal, 4096)
    except OSError:  # the other side has closed it
        break
    if not got:
        break
    sys.stdout.write(got.decode())
    if got.endswith(b"> "):
        os.write(terminal, b"/exit\n")
    if got.rstrip(b" ").endswith(b":"):
        os.write(terminal, answers.pop() if answers else b"\n")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY

here() {  # an example's command line as it is run
  local line=${1//\/shared\//shared/}
  line=${line//\/var\/lib\/node_exporter\//}
  line=${line//15496 11 995/72 11 99}
  case $line in
    "dslaunch --hostfile"*) line+=" --dry-run" ;;
    "dslaunch init" | *" --chat") line="python3 $scratch/answering.py $line" ;;
  esac
  [[ $1 == "dslaunch init"* ]] && line="rm -rf new && mkdir new && cd new && ln -s ../corpus.txt ../chat.jsonl ../shards ../path . && $line"
  echo "$line"
}

# What a build has no kernels for it refuses, by the name of the build option.
for_gpus=0
dslaunch env --json | grep -q '"cuda_kernels": *false' && for_gpus=78

run_example() {
  local verb=$1 line code wanted=0
  line=$(here "$2")
  [[ $line == *"--device cuda"* ]] && wanted=$for_gpus
  timeout 120 bash -c "$line" > out 2> err < /dev/null
  code=$?
  [ $code -eq $wanted ] || fail "example of $verb: '$line' ends with $code, expected $wanted"
  [ $wanted -eq 0 ] || grep -q DS_WITH_CUDA err || fail "example of $verb: '$line' does not name the build option"
}

verbs=$(dslaunch --help | sed -n '/^Verbs/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ "$(wc -w <<< "$verbs")" -ge 13 ] || fail "the list of verbs cannot be read: $verbs"
for verb in $verbs; do
  dslaunch "$verb" --help > help.txt || fail "$verb --help"
  sed -n '/^Examples:$/,/^$/s/^  //p' help.txt > examples.txt
  [ -s examples.txt ] || fail "$verb has no examples"
  prepare "$verb"
  while IFS= read -r line <&3; do
    [[ $line == *dslaunch\ * ]] || fail "$verb: '$line' is no command line of dslaunch"
    run_example "$verb" "$line"
  done 3< examples.txt
  put_back "$verb"
done

# The first steps of `dslaunch --help`, with small data under the name of the example.
mkdir -p examples/kjv
cp train.json corpus.txt examples/kjv/
dslaunch --help | sed -n '/^First steps:$/,$s/^  //p' > examples.txt
[ -s examples.txt ] || fail "no first steps"
while IFS= read -r line <&3; do run_example "--help" "$line"; done 3< examples.txt

finish
