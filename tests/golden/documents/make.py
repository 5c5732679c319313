"""Makes the golden runs of documents beside this file with Hugging Face's own models: five steps of AdamW over samples
of several documents, each of which sees itself alone, with positions that begin anew and without the losses of first
tokens, by explicit masks and the mean over the targets of the whole batch (num_items_in_batch of their trainer). An
encoder sees both sides, and is to tell tokens that are masked.

usage: make.py FOLDER [FAMILY ...]
Made with torch 2.9.1 and transformers 5.24.0, on the CPU.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "families"))
from make import BERT, CLIP, OPTIMIZER, OPTIMIZERS, SIZES, STEPS, WORDS, weights_of, write_shard  # noqa: E402
import masks  # noqa: E402

LENGTH, BATCH, END, WINDOW = 16, 4, 3, 5
SEED, MASK = 1, WORDS - 1
RULES = {"seed": SEED, "share": 0.3, "masked": 0.6, "random": 0.3, "mask": MASK, "vocabulary": WORDS, "never": (END, MASK)}
DOCUMENTS = {"eod_token_id": END, "reset_attention_mask": True, "reset_position_ids": True}
DATA = {"bert": {**DOCUMENTS, "masked_lm": {"mlm_probability": RULES["share"], "mask_replace_prob": RULES["masked"],
                                            "random_replace_prob": RULES["random"], "mask_token_id": MASK}}}
FAMILIES = {
    "mistral": lambda: transformers.MistralConfig(**SIZES, head_dim=8, max_position_embeddings=32,
                                                  sliding_window=WINDOW),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=4, n_positions=16,
                                            initializer_range=0.5, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                            bos_token_id=None, eos_token_id=None, attn_implementation="eager"),
    "bert": lambda: transformers.BertConfig(**BERT, layer_norm_eps=1e-5),
}


def rows_of(inputs, window):
    """Positions [B, T], and an additive mask [B, 1, T, T]. Without a window tokens see both sides."""
    ends = (inputs == END).long()
    document = ends.cumsum(1) - ends  # of each token; an end belongs to what it ends
    place = torch.arange(LENGTH)
    distance = place[:, None] - place[None, :]
    seen = document[:, :, None] == document[:, None, :]
    if window is not None:
        seen &= (distance >= 0) & (distance < window)
    first = torch.stack([torch.tensor([int((row == d).nonzero()[0]) for d in row]) for row in document])
    return place - first, torch.where(seen, 0.0, torch.finfo(torch.float32).min)[:, None]


def losses_of(model, inputs, targets, window):
    positions, mask = rows_of(inputs, window)
    logits = model(inputs, attention_mask=mask, position_ids=positions).logits
    kept = inputs != END
    sums = torch.nn.functional.cross_entropy(logits.view(-1, WORDS), targets.flatten(), reduction="none")
    return (sums * kept.flatten()).sum(), int(kept.sum())


def masked_losses_of(model, inputs, first_sample):
    positions, mask = rows_of(inputs, None)
    rows = [masks.masked(row, first_sample + i, RULES) for i, row in enumerate(inputs.tolist())]
    logits = model(torch.tensor([row[0] for row in rows]), attention_mask=mask, position_ids=positions).logits
    targets = torch.tensor([row[1] for row in rows]).flatten()
    return torch.nn.functional.cross_entropy(logits.view(-1, WORDS), targets, reduction="sum"), int((targets >= 0).sum())


def make(family, folder):
    torch.manual_seed(11)
    config = FAMILIES[family]()
    kind = transformers.AutoModelForMaskedLM if family == "bert" else transformers.AutoModelForCausalLM
    model = kind.from_config(config)
    hyper = OPTIMIZERS.get(family, OPTIMIZER)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(WORDS, (STEPS * BATCH * LENGTH + 1,))
    tokens[torch.rand(len(tokens)) < 0.12] = END
    write_shard(folder / "tokens.bin", tokens.tolist())
    train = {"model": ".", "data": {"train": ["tokens.bin"], "order": "sequential", "sequence_length": LENGTH,
                                    **DATA.get(family, {**DOCUMENTS, "eod_mask_loss": True})},
             "train": {"steps": STEPS, "seed": SEED}, "train_batch_size": BATCH,
             "optimizer": {"type": "AdamW", "params": hyper}, "gradient_clipping": CLIP}
    (folder / "train.json").write_text(json.dumps(train, indent=1) + "\n")
    golden = {"losses": [], "grad_norms": []}
    optimizer = torch.optim.AdamW(model.parameters(), **hyper)
    window = WINDOW if family == "mistral" else LENGTH
    for step in range(STEPS):
        first = step * BATCH * LENGTH
        inputs = tokens[first:first + BATCH * LENGTH].view(BATCH, LENGTH)
        targets = tokens[first + 1:first + 1 + BATCH * LENGTH].view(BATCH, LENGTH)
        if family == "bert":
            total, count = masked_losses_of(model, inputs, step * BATCH)
        else:
            total, count = losses_of(model, inputs, targets, window)
        loss = total / count
        optimizer.zero_grad()
        loss.backward()
        golden["losses"].append(loss.item())
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    save_file(weights_of(model, config.tie_word_embeddings), folder / "final.safetensors")


def main():
    folder = pathlib.Path(sys.argv[1])
    for family in sys.argv[2:] or FAMILIES:
        make(family, folder / family)


if __name__ == "__main__":
    main()
