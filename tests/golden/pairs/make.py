"""Makes the golden run of next sentence prediction beside this file with Hugging Face's BertForPreTraining: five steps of AdamW
over batches of pairs of texts with masked tokens, whose loss is the mean over all masked tokens of a batch and that over its
pairs, and the two losses of all batches after them.

usage: make.py FOLDER
Made with torch 2.15.0 and transformers 5.24.0, on the CPU.
"""
import json
import pathlib
import random
import sys

import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "families"))
from make import BERT, CLIP, OPTIMIZER, STEPS, TIED_NAMES, WORDS  # noqa: E402

LENGTH, BATCH = 12, 4
CLS, SEP, MASK = 1, 2, 3
NO_TARGET = -1
# Keys' biases have no gradient but rounding's, which Adam would make whole steps of.
HYPER = {**OPTIMIZER, "eps": 1e-2}


def row_of(draw):
    """A pair: its tokens, how many are no padding, where the second segment begins, what is masked, its class."""
    first = [draw.randrange(4, WORDS) for _ in range(draw.randrange(1, 5))]
    second = [draw.randrange(4, WORDS) for _ in range(draw.randrange(1, 6))]
    tokens = [CLS, *first, SEP, *second, SEP]
    targets = [NO_TARGET] * LENGTH
    for i in range(1, len(tokens) - 1):
        if tokens[i] != SEP and draw.random() < 0.3:
            targets[i], tokens[i] = tokens[i], MASK
    return {"tokens": tokens + [0] * (LENGTH - len(tokens)), "size": len(tokens), "second": len(first) + 2, "targets": targets,
            "label": draw.randrange(2)}


def losses_of(model, rows):
    """The loss over masked tokens and that over pairs."""
    seen = [[int(i < row["size"]) for i in range(LENGTH)] for row in rows]
    segments = [[int(row["second"] <= i < row["size"]) for i in range(LENGTH)] for row in rows]
    out = model(input_ids=torch.tensor([row["tokens"] for row in rows]), attention_mask=torch.tensor(seen),
                token_type_ids=torch.tensor(segments))
    targets = torch.tensor([row["targets"] for row in rows])
    cross_entropy = torch.nn.functional.cross_entropy
    return (cross_entropy(out.prediction_logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET),
            cross_entropy(out.seq_relationship_logits, torch.tensor([row["label"] for row in rows])))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(11)
    config = transformers.BertConfig(**{**BERT, "max_position_embeddings": LENGTH})
    model = transformers.BertForPreTraining(config)
    for name, value in model.named_parameters():
        if name.endswith("bias"):  # which are all zeros otherwise
            torch.nn.init.normal_(value, 0, 0.1)
    model.save_pretrained(folder)
    draw = random.Random("pairs")
    rows = [row_of(draw) for _ in range(STEPS * BATCH)]
    golden = {"rows": rows, "losses": [], "masked_lm": [], "next_sentence": [], "grad_norms": []}
    optimizer = torch.optim.AdamW(model.parameters(), **HYPER)
    model.eval()
    for step in range(STEPS):
        masked, pairs = losses_of(model, rows[step * BATCH:(step + 1) * BATCH])
        optimizer.zero_grad()
        (masked + pairs).backward()
        golden["losses"].append((masked + pairs).item())
        golden["masked_lm"].append(masked.item())
        golden["next_sentence"].append(pairs.item())
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    train = {"model": {"folder": ".", "task": "next_sentence_prediction"},
             "data": {"train": ["none.txt"], "order": "sequential", "sequence_length": LENGTH},
             "train": {"steps": STEPS, "seed": 1}, "train_batch_size": BATCH,
             "optimizer": {"type": "AdamW", "params": HYPER}, "gradient_clipping": CLIP}
    (folder / "train.json").write_text(json.dumps(train, indent=1) + "\n")
    final = {name: value.detach().float().contiguous().clone() for name, value in model.state_dict().items()
             if name not in TIED_NAMES}
    save_file(final, folder / "final.safetensors")


if __name__ == "__main__":
    main()
