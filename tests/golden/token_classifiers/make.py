"""Makes the golden runs of models that score classes of words beside this file with Hugging Face's own models: five steps of
AdamW over sentences that are split into words, each of a class, encoded, cut and padded by their tokenizers and labelled as
run_ner of transformers' examples does it, and what the model after them makes of the same sentences: the mean loss over the
tokens that count, and the share of those whose class has the highest score.

usage: make.py FOLDER [FAMILY ...]
Made with torch 2.15.0, transformers 5.24.0 and tokenizers 0.23.3, on the CPU.
"""
import importlib.util
import json
import pathlib
import random
import sys

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

spec = importlib.util.spec_from_file_location("classifiers", pathlib.Path(__file__).parents[1] / "classifiers" / "make.py")
classifiers = importlib.util.module_from_spec(spec)
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "families"))
spec.loader.exec_module(classifiers)
from make import CLIP, STEPS, WORDS  # noqa: E402

LENGTH, BATCH = classifiers.LENGTH, classifiers.BATCH
LABELS = ["O", "B-X", "I-X", "B-Y"]
classifiers.CLASSES.update(num_labels=len(LABELS), id2label=dict(enumerate(LABELS)),
                           label2id={name: i for i, name in enumerate(LABELS)}, classifier_dropout=0.0)
BYTES = ("roberta", "gpt2")
COLUMNS = {"roberta": "data.conll", "gpt2": "data.tsv"}
ALL_TOKENS = ("modernbert", "gpt2")
NO_CLASS = -100


def tokenizer_of(family, add_prefix_space):
    specials = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    if family in BYTES:
        letters = [chr(ord("a") + i) for i in range(16)]
        merges = [("Ġ", letter) for letter in letters] + [("a", "b"), ("b", "c"), ("Ġa", "b")]
        tokens = specials + ["Ġ"] + letters + ["".join(merge) for merge in merges]
        words = {token: i for i, token in enumerate(tokens)}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(words, merges))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
    else:
        letters = [chr(ord("a") + i) for i in range(18)]
        words = {token: i for i, token in enumerate(specials + letters + ["##" + letter for letter in letters])}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    assert len(words) <= WORDS
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def sentences_of(family):
    draw = random.Random(family)
    word = lambda: "".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randrange(1, 4)))
    sentences = []
    for _ in range(STEPS * BATCH):
        count = draw.randrange(1, 8)
        sentences.append(([word() for _ in range(count)], [draw.randrange(len(LABELS)) for _ in range(count)]))
    return sentences


def write_sentences(path, sentences, by_number):
    if path.suffix == ".jsonl":
        tags = lambda numbers: numbers if by_number else [LABELS[i] for i in numbers]
        path.write_text("".join(json.dumps({"tokens": words, "ner_tags": tags(numbers)}) + "\n" for words, numbers in sentences))
        return
    between = "\t" if path.suffix == ".tsv" else " "
    path.write_text("-DOCSTART-" + between + "X" + between + "O\n\n" + "\n".join(
        "".join(f"{word}{between}X{between}{LABELS[i]}\n" for word, i in zip(words, numbers)) for words, numbers in sentences))


# What run_ner makes of words and their classes.
def batch_of(tokenizer, sentences, family):
    rows = tokenizer.encode_batch([words for words, _ in sentences], is_pretokenized=True)
    inner = [LABELS.index(name.replace("B-", "I-")) if name.replace("B-", "I-") in LABELS else i
             for i, name in enumerate(LABELS)]
    labels = []
    for row, (_, numbers) in zip(rows, sentences):
        before, own = None, []
        for word in row.word_ids:
            if word is None:
                own.append(NO_CLASS)
            elif word != before:
                own.append(numbers[word])
            else:
                own.append(inner[numbers[word]] if family in ALL_TOKENS else NO_CLASS)
            before = word
        labels.append(own)
    values = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows], "labels": labels}
    return {name: torch.tensor(value) for name, value in values.items()}


def make(family, folder):
    torch.manual_seed(11)
    model = transformers.AutoModelForTokenClassification.from_config(classifiers.FAMILIES[family]())
    for name, value in model.named_parameters():
        if name.endswith("bias"):  # which are all zeros otherwise
            torch.nn.init.normal_(value, 0, 0.1)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer_of(family, False).save(str(folder / "tokenizer.json"))
    tokenizer = tokenizer_of(family, True)
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    sentences = sentences_of(family)
    data = COLUMNS.get(family, "data.jsonl")
    write_sentences(folder / data, sentences, family == "llama")
    train = {"model": ".", "data": {"train": [data], "order": "sequential", "sequence_length": LENGTH,
                                    **({"token_classification": {"label_all_tokens": True}} if family in ALL_TOKENS else {})},
             "train": {"steps": STEPS, "seed": 1}, "train_batch_size": BATCH,
             "optimizer": {"type": "AdamW", "params": classifiers.HYPER}, "gradient_clipping": CLIP}
    (folder / "train.json").write_text(json.dumps(train, indent=1) + "\n")
    golden = {"losses": [], "grad_norms": []}
    optimizer = torch.optim.AdamW(model.parameters(), **classifiers.HYPER)
    model.eval()
    for step in range(STEPS):
        loss = model(**batch_of(tokenizer, sentences[step * BATCH:(step + 1) * BATCH], family)).loss
        optimizer.zero_grad()
        loss.backward()
        golden["losses"].append(loss.item())
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
    with torch.no_grad():
        batch = batch_of(tokenizer, sentences, family)
        after = model(**batch)
    counts = batch["labels"] != NO_CLASS
    golden["validation_loss"] = after.loss.item()
    golden["validation_accuracy"] = (after.logits.argmax(-1) == batch["labels"])[counts].float().mean().item()
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    save_file({name: value.detach().float().contiguous().clone() for name, value in model.state_dict().items()},
              folder / "final.safetensors")


def main():
    folder = pathlib.Path(sys.argv[1])
    for family in sys.argv[2:] or classifiers.FAMILIES:
        make(family, folder / family)


if __name__ == "__main__":
    main()
