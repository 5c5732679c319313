"""Makes the golden vectors of texts beside this file: folders of Hugging Face's classes without a head, with small random
weights, and what sentence-transformers computes from their last hidden states: pooled with the attention mask over a
batch that is padded, and, where the folder or the run says so, of length 1.

usage: make.py FOLDER
Made with torch 2.15.0, tokenizers 0.23.3 and transformers 5.24.0, on the CPU.
"""
import json
import pathlib
import sys

import tokenizers
import torch
import transformers

TEXTS = ["a cat sat", "the cat sat on the mat and the dog sat on the cat", "dog", "mat on the dog"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "sat", "the", "on", "mat", "and", "do", "##g"]
LONGEST = 8  # tokens of a text of the BERT, so that one of them is cut
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 80, "initializer_range": 0.5, "attn_implementation": "eager",
         "bos_token_id": None, "eos_token_id": None}
LLAMA = {**SIZES, "vocab_size": 256, "num_key_value_heads": 2, "pad_token_id": None}
MODELS = {
    "bert": lambda: transformers.BertConfig(**SIZES, vocab_size=len(WORDS), pad_token_id=0),
    # Bytes of the texts are none of its padding token, which has no position.
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(**SIZES, vocab_size=256, pad_token_id=1),
    "mistral": lambda: transformers.MistralConfig(**LLAMA, sliding_window=5),
    "qwen3": lambda: transformers.Qwen3Config(**LLAMA, head_dim=8, tie_word_embeddings=True),
}


def tokenizer():
    words = tokenizers.Tokenizer(tokenizers.models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.post_processor = tokenizers.processors.BertProcessing(("[SEP]", WORDS.index("[SEP]")), ("[CLS]", WORDS.index("[CLS]")))
    return words


def write_recipe(folder):
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
               {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
    (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
               "pooling_mode_max_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=1) + "\n")
    lengths = {"max_seq_length": LONGEST, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(lengths, indent=1) + "\n")


def ids_of(name, folder):
    if name != "bert":
        return [list(text.encode()) for text in TEXTS]
    words = tokenizer()
    words.save(str(folder / "tokenizer.json"))
    words.enable_truncation(LONGEST)
    return [words.encode(text).ids for text in TEXTS]


def vectors(model, ids):
    """By pooling, over one batch of all texts, which are padded."""
    longest = max(map(len, ids))
    padding = model.config.pad_token_id or 0
    tokens = torch.tensor([text + [padding] * (longest - len(text)) for text in ids])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in ids])
    with torch.no_grad():
        states = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    last = torch.tensor([len(text) - 1 for text in ids])
    return {"mean": (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), "cls": states[:, 0],
            "last": states[torch.arange(len(ids)), last]}


def make(name, folder):
    torch.manual_seed(7)
    model = transformers.AutoModel.from_config(MODELS[name]()).eval()
    for parameter, value in model.named_parameters():
        if parameter.endswith("bias") or "norm" in parameter.lower():  # which are all zeros, or all ones, otherwise
            torch.nn.init.normal_(value, value.mean().item(), 0.1)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    ids = ids_of(name, folder)
    if name == "bert":
        write_recipe(folder)
    found = vectors(model, ids)
    unit = {pooling: torch.nn.functional.normalize(value, dim=1) for pooling, value in found.items()}
    golden = {"tokens": [len(text) for text in ids], "as_they_are": {pooling: value.tolist() for pooling, value in found.items()},
              "of_length_1": {pooling: value.tolist() for pooling, value in unit.items()}}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(TEXTS)))
    for name in MODELS:
        make(name, folder / name)


if __name__ == "__main__":
    main()
