"""Makes the golden runs of models that score classes beside this file with Hugging Face's own models: five steps of AdamW
over texts, or pairs of them, of one class each, of numbers, or of several classes, cut and padded by their tokenizers, and
what the model after them makes of the same texts: the mean loss, and the share of them whose class has the highest score.

usage: make.py FOLDER [FAMILY ...]
Made with torch 2.15.0, transformers 5.24.0 and tokenizers 0.23.3, on the CPU.
"""
import csv
import json
import pathlib
import random
import sys

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "families"))
from make import BERT, CLIP, COMMON, OPTIMIZER, SIZES, STEPS, WORDS, without  # noqa: E402

LENGTH, BATCH = 12, 4
LABELS = ["no", "maybe", "yes"]
CLASSES = {"num_labels": len(LABELS), "id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
MODERNBERT = {**COMMON, "num_hidden_layers": 3, "pad_token_id": 0, "cls_token_id": None, "sep_token_id": None, "intermediate_size": 24,
              "max_position_embeddings": 80, "initializer_range": 0.5, "local_attention": 4,
              "layer_types": ["full_attention", "sliding_attention", "full_attention"],
              "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                                  "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}}
FAMILIES = {
    "bert": lambda: transformers.BertConfig(**BERT, **CLASSES),
    "roberta": lambda: transformers.RobertaConfig(**{**BERT, "pad_token_id": 0}, type_vocab_size=1, **CLASSES),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=WORDS, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=16, initializer_range=0.5, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0, pad_token_id=0, attn_implementation="eager", **CLASSES),
    "modernbert": lambda: transformers.ModernBertConfig(**MODERNBERT, **CLASSES),
    # The mean of all tokens is scored, padding left out.
    "modernbert_mean": lambda: transformers.ModernBertConfig(**MODERNBERT, classifier_pooling="mean", **CLASSES),
    "llama": lambda: transformers.LlamaConfig(**without({**SIZES, "pad_token_id": 0}), max_position_embeddings=80, **CLASSES),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=4, n_positions=16, pad_token_id=0,
                                            initializer_range=0.5, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                            bos_token_id=None, eos_token_id=None, attn_implementation="eager", **CLASSES),
}
PAIRS = ("bert", "bert_number")
TABLES = {"roberta": "data.csv", "modernbert": "data.tsv", "llama_number": "data.tsv"}
# Name: the family, what the scores are, and of what.
PROBLEMS = {
    "bert_number": ("bert", "regression", ["similarity"]),
    "llama_number": ("llama", None, ["reward"]),  # as reward models are saved
    "modernbert_mean_numbers": ("modernbert_mean", "regression", ["joy", "anger", "fear"]),
    "roberta_several": ("roberta", "multi_label_classification", LABELS),
    "gpt2_several": ("gpt2", "multi_label_classification", ["spam"]),
}
# Keys' biases have no gradient but rounding's, which Adam would make whole steps of.
HYPER = {**OPTIMIZER, "eps": 1e-2}


def tokenizer_of():
    words = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, **{f"w{i}": i for i in range(4, WORDS)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


# What a record has as its label, and what the model is given of it.
def label_of(draw, i, problem, labels):
    if problem == "multi_label_classification":
        holds = [float(draw.random() < 0.4) for _ in labels]
        names = [name for name, held in zip(labels, holds) if held]
        if i % 3 == 0 and len(names) == 1:
            return names[0], holds
        if i % 3 == 1:
            holds = [held * 0.75 for held in holds]
            return holds, holds
        return names, holds
    numbers = [round(draw.uniform(-3, 3), i % 4) for _ in labels]
    return (numbers[0] if len(labels) == 1 else numbers), numbers


def records_of(family):
    draw = random.Random(family)
    _, problem, labels = PROBLEMS.get(family, (family, "single_label_classification", LABELS))
    text = lambda: " ".join(f"w{draw.randrange(4, WORDS)}" for _ in range(draw.randrange(1, LENGTH)))
    records = []
    for i in range(STEPS * BATCH):
        if family in PROBLEMS:
            label, values = label_of(draw, i, problem, labels)
            record = {"text": text(), "label": label, "values": values}
        else:
            label = draw.randrange(len(LABELS))
            record = {"text": text(), "label": label if i % 2 else LABELS[label]}
        if family in PAIRS:
            record["second"] = text()
        records.append(record)
    return records


def write_records(path, records):
    if path.suffix == ".jsonl":
        told = [{name: value for name, value in record.items() if name != "values"} for record in records]
        path.write_text("".join(json.dumps(record) + "\n" for record in told))
        return
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t", lineterminator="\n",
                          quoting=csv.QUOTE_NONNUMERIC if path.suffix == ".csv" else csv.QUOTE_NONE)
        rows.writerow(["label", "text"])
        rows.writerows([record["label"], record["text"]] for record in records)


def batch_of(tokenizer, records, family):
    given = [(record["text"], record["second"]) if "second" in record else record["text"] for record in records]
    rows = tokenizer.encode_batch(given)
    batch = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
    if family in PAIRS:
        batch["token_type_ids"] = [row.type_ids for row in rows]
    if "values" in records[0]:
        labels = [record["values"] for record in records]
    else:
        labels = [record["label"] if isinstance(record["label"], int) else LABELS.index(record["label"]) for record in records]
    return {name: torch.tensor(values) for name, values in {**batch, "labels": labels}.items()}


def config_of(family):
    of, problem, labels = PROBLEMS.get(family, (family, None, LABELS))
    config = FAMILIES[of]()
    if family in PROBLEMS:
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: i for i, name in enumerate(labels)}
        config.problem_type = problem
        config.initializer_range = 0.2  # squares of larger scores make rounding grow
    return config


def make(family, folder):
    torch.manual_seed(11)
    model = transformers.AutoModelForSequenceClassification.from_config(config_of(family))
    for name, value in model.named_parameters():
        if name.endswith("bias"):  # which are all zeros otherwise
            torch.nn.init.normal_(value, 0, 0.1)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer = tokenizer_of()
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    records = records_of(family)
    data = TABLES.get(family, "data.jsonl")
    write_records(folder / data, records)
    train = {"model": ".", "data": {"train": [data], "order": "sequential", "sequence_length": LENGTH,
                                    **({"classification": {"text_pair": "second"}} if family in PAIRS else {})},
             "train": {"steps": STEPS, "seed": 1}, "train_batch_size": BATCH,
             "optimizer": {"type": "AdamW", "params": HYPER}, "gradient_clipping": CLIP}
    (folder / "train.json").write_text(json.dumps(train, indent=1) + "\n")
    golden = {"losses": [], "grad_norms": []}
    optimizer = torch.optim.AdamW(model.parameters(), **HYPER)
    model.eval()
    for step in range(STEPS):
        loss = model(**batch_of(tokenizer, records[step * BATCH:(step + 1) * BATCH], family)).loss
        optimizer.zero_grad()
        loss.backward()
        golden["losses"].append(loss.item())
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
    with torch.no_grad():
        batch = batch_of(tokenizer, records, family)
        after = model(**batch)
    golden["validation_loss"] = after.loss.item()
    if family not in PROBLEMS:
        golden["validation_accuracy"] = (after.logits.argmax(-1) == batch["labels"]).float().mean().item()
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    save_file({name: value.detach().float().contiguous().clone() for name, value in model.state_dict().items()},
              folder / "final.safetensors")


def main():
    folder = pathlib.Path(sys.argv[1])
    for family in sys.argv[2:] or [*FAMILIES, *PROBLEMS]:
        make(family, folder / family)


if __name__ == "__main__":
    main()
