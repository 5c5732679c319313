"""Makes what lies beside this file: a toy model with a tokenizer and a chat template, records of conversations and of prompts
with completions, and what TRL's SFTTrainer makes of them: the tokens, the labels and the losses of ten steps of AdamW
(expected.json), bins of packed sequences (packing.json) and what chat templates without generation blocks render
(templates/turns.json). A loop written by hand has to give the losses again, from the same tokens.

usage: make_supervised.py [FOLDER]
Made with trl 1.16.0, transformers 5.24.0, tokenizers 0.23.3, torch 2.15.0, datasets 5.2.0, accelerate 1.15.0 and
jinja2 3.1.6, on the CPU, in fp32, with one thread.
"""
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1",
                  HF_HUB_DISABLE_TELEMETRY="1", HF_HOME=tempfile.mkdtemp(prefix="supervised"))

import datasets  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

LENGTH, SHORT, BATCH, ACCUMULATED, STEPS, RATE = 96, 48, 2, 2, 10, 1e-3
BOS, EOS, PAD, START, END = SPECIAL = ["<|bos|>", "<|eos|>", "<|pad|>", "<|im_start|>", "<|im_end|>"]
WORDS = 384
# At a hidden size of 32 the bytes' rows and the layers alone are 141 kB.
SIZES = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
# As Llama 3 splits words: lines' ends join what is before them.
WORD = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}
            {{- message['content'] + '<|im_end|>' }}
        {%- endgeneration %}
    {%- elif message['role'] in ['system', 'user'] %}
        {{- message['content'] + '<|im_end|>' }}
    {%- else %}
        {{- raise_exception('No role is called ' + message['role']) }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# What the system says, if anything, then what is said in turn, the user first.
CHATS = [
    (None, ["Hi!", "Hello! How can I help you?"]),
    ("Be brief.", ["What is two and two?", "Four.", "And three and three?", "Six."]),
    (None, ["Name a color.", "Blue.", "Another one.", "Green.", "And one more?", "Red."]),
    (None, ["Wie heißt die Hauptstadt von Österreich?", "Die Hauptstadt heißt Wien."]),
    ("Answer in French.", ["What is cheese?", "Le fromage est du lait caillé."]),
    (None, ["日本の首都は?", "東京です。"]),
    (None, ["One?", "Two.", "Three?", "Four.", "Five?", "Six.", "Seven?", "Eight."]),
    (None, ["Write a list of two fruits.", "- an apple\n- a pear\n"]),
    (None, ["Leave two lines, then say hi.", "\n\nhi"]),  # the span begins within a token
    ("You are a helpful assistant.", ["Who are you?", "I am a helpful assistant."]),
    (None, ["Say nothing.", ""]),
    (None, ["What is the sun?", "The sun is a star.", "Thank you!"]),  # the last has no answer
    ("You are a helpful assistant. You answer in one word, and you are never in doubt.",  # nothing is learnt when cut short
     ["What is the color of the sky when the sun is up and there is no rain?", "Blue."]),
    (None, ["Send me a smile.", "😀 Here you are! 🎉"]),
    (None, ["How do I print a line in C?", "Like this:\n\n```c\nputs(\"hi\");\n```"]),
    (None, ["Say it after   three spaces.", "   it"]),
    (None, ["Τι είναι αυτό;", "Αυτό είναι ένα βιβλίο."]),
    (None, ["Spell café.", "c, a, f, e\u0301"]),
    ("Отвечай кратко.", ["Как дела?", "Хорошо."]),
    (None, ["How many days are in 2024?", "There are 366 days in 2024."]),
    ("You are a helpful assistant.", ["Is it Monday?", "No.", "Is it Friday?", "Yes, it is.", "Thank you!", "You're welcome."]),
    (None, ["Is water wet?", "Yes, it is.", "Is the sun cold?", "No, it is not."]),
    (None, ["Write two lines.", "The first line.\n\nThe second line."]),
    ("Be brief.", ["What is a star?", "A sun.", "What is the sun?", "A star.\n"]),
]

COMPLETIONS = [
    ("The sun is", " a star."),
    ("The sun is a ", "star."),  # " star" is begun by the prompt
    ("Two and two is", " four."),
    ("Question: What is a star?\nAnswer:", " A sun."),
    ("Question: Is water wet?\nAnswer: ", "Yes, it is."),
    ("I am a help", "ful assistant."),  # within a word
    ("", "Hello! How can I help you?"),
    ("Say nothing.\n", ""),
    ("Say it, then end.\n", "it<|eos|>"),  # ended already
    ("Leave a line.\n", "\nThe second line."),  # newlines join
    ("Die Hauptstadt von Österreich ist", " Wien."),
    ("Le fromage est du lait", " caillé."),
    ("日本の首都は", "東京です。"),
    ("Smile: ", "😀🎉"),
    ("café, caf", "é"),
    ("cafe", "\u0301"),
    ("One, two, three,", " four, five, six."),
    ("Name a color.\n\n", "Red.\n"),
    ("There are 36", "6 days in 2024."),  # within a number
    ("puts(\"", "hi\");"),
    ("Как дела? ", "Хорошо."),
    ("Who are you?\n###\n", "I am a helpful assistant.\n###\n"),
    ("Write a list of two fruits.\n- an apple\n-", " a pear"),
    ("<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n", "Hello!<|im_end|>"),  # tokens written out
]

ALPACA = [
    ("Name a color.", "", "Blue."),
    ("Add the numbers.", "2 and 2", "4"),
    ("Translate into German.", "What is cheese?", "Was ist Käse?"),
    ("What is the sun?", "", "The sun is a star."),
    ("Spell the word.", "café", "c, a, f, é"),
    ("Write a list of two fruits.", "", "- an apple\n- a pear"),
    ("Say which is a star.", "the sun\nthe sky", "the sun"),
    ("How many days are in the year?", "2024", "366"),
    ("Say hi.", "", "Hello!"),
    ("首都は?", "日本", "東京です。"),
    ("Answer with yes or no.", "Is water wet?", "Yes"),
    ("Say nothing.", "", ""),
]

# Spans that begin or end within a token: what is before the reply, which is learnt, and after it; the question; the reply.
EDGES = {
    "begins_after_the_space": ("User: {user}\nAssistant: ", " .\n", "Is water wet?", "it is"),
    "begins_before_the_space": ("User: {user}\nAssistant:", "\n", "Is water wet?", " it is"),
    "ends_before_the_newline": ("User: {user}\nAssistant:", "\n", "Is water wet?", " it is."),
    "begins_and_ends_within_newlines": ("assistant\n", "\n", "", "\n\nhi\n"),
    "within_one_token": ("ass", "ant\n", "", "ist"),
    "empty_within_a_token": ("assist", "ant\n", "", ""),
    "empty_between_tokens": ("assistant\n", "<|im_end|>\n", "", ""),
    "bytes_of_one_character": ("User: {user} ", "🎉\n", "Send me a smile.", "😀"),
    "tokens_written_by_the_user": ("<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n", "\n",
                                   "Hi!<|im_end|>\n<|im_start|>assistant\nNo.", "Yes.<|im_end|>"),
}

# Templates of models that many have, without generation blocks: the start and end tokens, and the template.
ALTERNATE = ("{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}")
TEMPLATES = {
    "chatml": ("<s>", "<|im_end|>", """\
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""),
    "zephyr": ("<s>", "</s>", """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>", """\
{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + \
'<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + \
content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\
\\n\\n' }}{% endif %}"""),
    "gemma": ("<bos>", "<eos>", """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}""" + ALTERNATE + """{% endif %}\
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""),
    "mistral": ("<s>", "</s>", """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- endif %}
{%- endfor %}"""),
    "thinking": ("<|endoftext|>", "<|im_end|>", """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""),
}
TALKS = {
    "plain": (None, ["Hi!", " Hello, you.\n", "How are you?", "Fine. 😀"]),
    "system": ("Be brief.", ["Was heißt Käse?", "Cheese.", "And Österreich?", "Austria."]),
    "thought": (None, ["One and one?", "<think>\n1 + 1 = 2\n</think>\n\nTwo.",
                       "And one?", "<think>\n2 + 1 = 3\n</think>\n\nThree."]),
    "short": (None, ["Ja?", "Nein, schön."]),
}


def messages_of(system, said):
    told = [{"role": "system", "content": system}] if system is not None else []
    return told + [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]


def records_of():
    chats = [messages_of(*chat) for chat in CHATS]
    kinds = {"system": "system", "user": "human", "assistant": "gpt"}
    # Each conversation up to its last answer, which completes it; one is completed by all that follows its first question.
    split = []
    for i, chat in enumerate(chats):
        last = max(j for j, message in enumerate(chat) if message["role"] == "assistant")
        first = next(j for j, message in enumerate(chat) if message["role"] == "assistant")
        at = first if i == 2 else last
        split.append({"prompt": chat[:at], "completion": chat[at:last + 1]})
    return {
        "chat": [{"messages": chat} for chat in chats],
        "sharegpt": [{"conversations": [{"from": kinds[one["role"]], "value": one["content"]} for one in chat]}
                     for chat in chats],
        "prompt_completion": [{"prompt": prompt, "completion": completion} for prompt, completion in COMPLETIONS],
        "prompt_completion_chat": split,
        "alpaca": [dict(zip(("instruction", "input", "output"), one)) for one in ALPACA],
    }


def tokenizer_of(records):
    texts = [f"{one['role']}\n{one['content']}\n" for record in records["chat"] for one in record["messages"]]
    texts += [prompt + completion for prompt, completion in COMPLETIONS] + ["\n".join(one) for one in ALPACA]
    for token in SPECIAL:
        texts = [text.replace(token, "\n") for text in texts]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORD), "isolated"), level(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=SPECIAL, initial_alphabet=sorted(level.alphabet()), show_progress=False))
    tokenizer.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.ByteLevel(trim_offsets=False), tokenizers.processors.TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1", special_tokens=[(BOS, tokenizer.token_to_id(BOS))])])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD, chat_template=TEMPLATE, model_max_length=128,
        extra_special_tokens=[START, END], clean_up_tokenization_spaces=False)


def make_model(folder, tokenizer):
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **SIZES, vocab_size=len(tokenizer), max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.2,
        attention_dropout=0.0, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id))
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.convert_tokens_to_ids([EOS, END]),
        pad_token_id=tokenizer.pad_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)


def lines(values):
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n]"


class Record(transformers.TrainerCallback):
    """What SFTTrainer logs, and the mean of the tokens' losses that it adds up in fp32."""

    def __init__(self):
        self.logged, self.losses, self.norms, self.sums, self.counts = [], [], [], [], []

    def __call__(self, model, given, output):
        self.sums.append(-output.log_probs.double().sum().item())
        self.counts.append(output.label_mask.sum().item())

    def on_log(self, args, state, control, logs=None, **more):
        if "loss" in logs:
            self.logged.append(logs["loss"])
            self.norms.append(logs["grad_norm"])
            self.losses.append(sum(self.sums[-ACCUMULATED:]) / sum(self.counts[-ACCUMULATED:]))


def trainer_of(folder, records, record=None, **options):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    settings = trl.SFTConfig(
        output_dir=os.environ["HF_HOME"], **{"max_length": LENGTH, **options}, packing=False, shuffle_dataset=False,
        train_sampling_strategy="sequential", per_device_train_batch_size=BATCH, gradient_accumulation_steps=ACCUMULATED,
        max_steps=STEPS, learning_rate=RATE, lr_scheduler_type="constant", warmup_steps=0, optim="adamw_torch", adam_beta1=0.9,
        adam_beta2=0.999, adam_epsilon=1e-8, weight_decay=0.0, max_grad_norm=0.0, seed=0, bf16=False, fp16=False, use_cpu=True,
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
        dataloader_pin_memory=False)
    data = datasets.Dataset.from_list([{**record, "index": i} for i, record in enumerate(records)])
    trainer = trl.SFTTrainer(model=model, args=settings, train_dataset=data, callbacks=[record] if record else [],
                             processing_class=transformers.AutoTokenizer.from_pretrained(folder))
    if record:
        trainer.model.register_forward_hook(record)
    return trainer


def padded(rows, filler):
    length = max(map(len, rows))
    return torch.tensor([row + [filler] * (length - len(row)) for row in rows])


def by_hand(folder, samples, kind):
    """The sums of the tokens' cross entropies over how many count, of the batches in order; gradients' norms; and the counts."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=kind, attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses, norms, counts = [], [], []
    for step in range(STEPS):
        at = step * BATCH * ACCUMULATED
        chosen = [samples[i % len(samples)] for i in range(at, at + BATCH * ACCUMULATED)]
        count = sum(label != -100 for sample in chosen for label in sample["labels"][1:])
        loss = 0.0
        for i in range(0, len(chosen), BATCH):
            part = chosen[i:i + BATCH]
            ids = padded([sample["input_ids"] for sample in part], model.config.pad_token_id)
            there = padded([[1] * len(sample["input_ids"]) for sample in part], 0)
            labels = padded([sample["labels"] for sample in part], -100)
            logits = model(input_ids=ids, attention_mask=there).logits[:, :-1]
            entropies = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
                                                          ignore_index=-100, reduction="none")
            (entropies.sum() / count).backward()
            loss += entropies.double().sum().item() / count
        norms.append(torch.nn.utils.get_total_norm([one.grad for one in model.parameters()]).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
        counts.append(count)
    return losses, norms, counts


def run_of(folder, records, **options):
    record = Record()
    trainer = trainer_of(folder, records, record, **options)
    assert isinstance(trainer._get_train_sampler(), torch.utils.data.SequentialSampler)
    assert trainer.train_dataset["index"][:] == list(range(len(records)))
    samples = [{"input_ids": one["input_ids"], "labels": one["labels"]} for one in trainer.train_dataset]
    assert max(len(one["input_ids"]) for one in samples) < LENGTH
    trainer.train()
    hand, norms, counts = by_hand(folder, samples, torch.float32)
    double, _, _ = by_hand(folder, samples, torch.float64)
    apart = [max(abs(a - b) for a, b in zip(record.losses, other, strict=True)) for other in (hand, record.logged, double)]
    print(options, "\n  SFTTrainer", *record.losses, "\n  by hand   ", *hand, "\n  logged    ", *record.logged,
          "\n  in fp64   ", *double, "\n  apart from SFTTrainer's: by hand {:.2g}, logged {:.2g}, in fp64 {:.2g}".format(*apart))
    assert apart[0] < 1e-6 and apart[1] < 3e-6 and max(abs(a - b) for a, b in zip(record.norms, norms, strict=True)) < 1e-5
    return samples, {"options": {"max_length": LENGTH, **options}, "losses": record.losses, "losses_fp64": double,
                     "grad_norms": record.norms, "counted": counts}


def truncated_of(folder, records, samples):
    kept = trainer_of(folder, records, assistant_only_loss=True, max_length=SHORT).train_dataset
    cut = [{"index": one["index"], "input_ids": one["input_ids"], "labels": one["labels"]} for one in kept]
    for one in cut:
        whole = samples[one["index"]]
        assert one["input_ids"] == whole["input_ids"][:SHORT] and one["labels"] == whole["labels"][:SHORT]
    dropped = sorted(set(range(len(records))) - set(kept["index"]))
    assert dropped and all(set(samples[i]["labels"][:SHORT]) == {-100} for i in dropped)
    return cut, dropped


def edges_of(tokenizer):
    edges = []
    for name, (before, after, user, reply) in EDGES.items():
        before = before.replace("{user}", "' + messages[0]['content'] + '").replace("\n", "\\n")
        after = after.replace("\n", "\\n")
        template = (f"{{{{- '{before}' }}}}{{%- generation %}}{{{{- messages[1]['content'] }}}}{{%- endgeneration %}}"
                    f"{{{{- '{after}' }}}}")
        messages = messages_of(None, [user, reply])
        [text], [spans] = render_jinja_template([messages], chat_template=template, return_assistant_tokens_mask=True)
        out = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
        encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        assert encoding.ids == out["input_ids"]
        labels = [token if learnt else -100 for token, learnt in zip(out["input_ids"], out["assistant_masks"], strict=True)]
        edges.append({"name": name, "template": template, "messages": messages, "text": text, "span": list(spans[0]),
                      "input_ids": out["input_ids"], "offsets": encoding.offsets, "labels": labels})
    return edges


def make_expected(folder, records, path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    runs = {name: run_of(folder, records[name], **options) for name, options in {
        "chat": {"assistant_only_loss": True}, "prompt_completion": {"completion_only_loss": True},
        "prompt_completion_chat": {"completion_only_loss": True}}.items()}
    samples, everything = run_of(folder, records["chat"], assistant_only_loss=False)
    assert all(one["labels"] == one["input_ids"] == other["input_ids"]
               for one, other in zip(samples, runs["chat"][0], strict=True))
    cut, dropped = truncated_of(folder, records["chat"], runs["chat"][0])
    parts = []
    for name, (samples, figures) in runs.items():
        told = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in figures.items())
        parts.append(f'"{name}": {{\n{told},\n"samples": {lines(samples)}\n}}')
    told = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in everything.items())
    parts.append(f'"chat_all": {{\n{told}\n}}')
    parts.append(f'"chat_truncated": {{\n"options": {json.dumps({"assistant_only_loss": True, "max_length": SHORT})},\n'
                 f'"dropped": {json.dumps(dropped)},\n"samples": {lines(cut)}\n}}')
    parts.append(f'"edges": {lines(edges_of(tokenizer))}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    json.loads(path.read_text())


def make_packing(path):
    draw = random.Random(0)
    lengths = [min(LENGTH, max(1, round(draw.lognormvariate(3.2, 0.8)))) for _ in range(200)]
    data = datasets.Dataset.from_dict({"input_ids": [[i] * length for i, length in enumerate(lengths)]})
    packed = trl.pack_dataset(data, LENGTH, "bfd")
    bins = []
    for one in packed:
        ids = list(dict.fromkeys(one["input_ids"]))
        assert [lengths[i] for i in ids] == one["seq_lengths"] and sum(one["seq_lengths"]) == len(one["input_ids"]) <= LENGTH
        bins.append(ids)
    assert sorted(i for one in bins for i in one) == list(range(len(lengths)))
    path.write_text(f'{{\n"seq_length": {LENGTH},\n"lengths": {json.dumps(lengths)},\n"bins": {json.dumps(bins)},\n'
                    f'"fill": {sum(lengths) / (LENGTH * len(bins))}\n}}\n')


def turns_of(tokenizer, name, messages):
    bos, eos, template = TEMPLATES[name]

    def render(upto, prompt):
        return tokenizer.apply_chat_template(messages[:upto], chat_template=template, tokenize=False,
                                             add_generation_prompt=prompt, bos_token=bos, eos_token=eos)

    text, turns = render(len(messages), False), []
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            before, upto = render(i, True), render(i + 1, False)
            turns.append({"message": i, "before": before, "upto": upto,
                          "stable": upto.startswith(before) and text.startswith(upto), "span": [len(before), len(upto)],
                          "bytes": [len(before.encode()), len(upto.encode())]})
    return {"template": name, "messages": messages, "text": text, "turns": turns}


def make_turns(tokenizer, path):
    talks = {name: messages_of(*talk) for name, talk in TALKS.items()}
    told = {name: ["plain", "system", "thought"] for name in TEMPLATES}
    told["gemma"] = ["plain", "short", "thought"]  # which has no system
    turns = [turns_of(tokenizer, name, talks[talk]) for name in TEMPLATES for talk in told[name]]
    for one in turns:
        print(one["template"], [turn["stable"] for turn in one["turns"]])
    told = {name: dict(zip(("bos_token", "eos_token", "template"), one)) for name, one in TEMPLATES.items()}
    path.write_text(f'{{\n"templates": {json.dumps(told, indent=0, ensure_ascii=False)},\n"conversations": {lines(turns)}\n}}\n')


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "model", ignore_errors=True)
    records = records_of()
    for name, told in records.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told))
    tokenizer = tokenizer_of(records)
    make_model(folder / "model", tokenizer)
    make_expected(folder / "model", records, folder / "expected.json")
    make_packing(folder / "packing.json")
    make_turns(tokenizer, folder / "templates" / "turns.json")
    shutil.rmtree(os.environ["HF_HOME"])


if __name__ == "__main__":
    main()
