"""Makes what lies beside this file: pairs of a chosen and a rejected completion, and what TRL's DPOTrainer, ORPOTrainer and
CPOTrainer make of them over ../supervised/model:

pairs_text.jsonl, pairs_chat.jsonl: prompt, chosen and rejected, as texts and as messages.
pairs_implicit_text.jsonl, pairs_implicit.jsonl: chosen and rejected with the prompt in both; the latter are pairs_chat's.
reference: the model with its values shaken. adapter: a fresh adapter of peft, whose B are zero.

expected.json: of each file the tokens and the masks of completions (samples), and what of pairs_chat is dropped and cut short
by a max_length (truncated); of each model and file the sums of the completions' log-probabilities (references); and five steps
of AdamW of each loss and of some other ways (runs). The model's initial state is the reference unless a run names another. A
loop written by hand has to give the numbers again from the same tokens, and gives those named _fp64.

ORPOTrainer and CPOTrainer have no reference. They put an eos behind a chat's template, too, and where a token joins a prompt and
one of its completions they begin that one alone earlier; here they are given the tokens of DPOTrainer, and all else of them is as
it is.

usage: make_preference.py
Made with trl 1.16.0, peft 0.21.2, transformers 5.24.0, tokenizers 0.23.3, torch 2.15.0, datasets 5.2.0, accelerate 1.15.0,
safetensors 0.8.0 and jinja2 3.1.6, on the CPU, in fp32, with one thread.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile

FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
         "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
if any(os.environ.get(name) != value for name, value in FIXED.items()):  # peft writes sets in the order of their hashes
    os.environ.update(FIXED)
    os.execv(sys.executable, [sys.executable, *sys.argv])
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="preference")

import datasets  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from torch.nn.functional import logsigmoid  # noqa: E402
from trl.experimental.cpo import CPOConfig, CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOConfig, ORPOTrainer  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
MODEL, REFERENCE, ADAPTER = "../supervised/model", "reference", "adapter"
BATCH, STEPS, RATE, BETA, SMOOTHING, TAU, SHORT = 4, 5, 2e-3, 0.1, 0.1, 0.05, 40
LORA = {"r": 4, "lora_alpha": 8,
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
LOGGED = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected"]

# Prompt, chosen, rejected.
TEXTS = [
    ("The sun is", " a star.", " a cold book."),
    ("The sun is a ", "star.", "color."),  # the space joins what follows
    ("Two and two is ", "four.", "5."),  # the space joins one of them
    ("What is a star?\n", "A sun.", "A sun is not a star, it is a book."),  # a shared beginning
    ("", "Hello! How can I help you?", "No."),
    ("Say it, then end.\n", "it<|eos|>", "not it"),  # one has ended already
    ("Die Hauptstadt von Österreich ist", " Wien.", " Käse."),
    ("日本の首都は", "東京です。", "京都です。"),
    ("Smile: ", "😀🎉", "🎉"),
    ("Say nothing.\n", "", "Nothing?"),
    ("Write a list of two fruits, and say of each of them what color it is.\n\n",
     "- an apple: Red.\n- a pear: Green.\n\nThank you! Is there one more question?", "- water\n"),
    ("café, caf", "é", "e\u0301"),  # within a word
]

# Chosen, rejected. Of their characters, the first that differ end the prompt, but a space before them is left to both.
IMPLICIT_TEXTS = [
    ("The sun is a star.", "The sun is cold."),
    ("What is water?\nIt is wet.", "What is water?\nIt is white."),  # within a word
    ("One, two, three", "One, two, three, four."),  # one begins the other: the last shared character is left to both
    ("Name two fruits:  an apple", "Name two fruits:  pears"),  # one of two spaces is left
    ("Send me a smile: 😀", "Send me a smile: 😁"),  # their first bytes are the same
    ("Yes, it is.", "No."),  # nothing is shared
]

# What the system says, if anything, what is said in turn, the user first; chosen; rejected.
CHATS = [
    (None, ["Hi!"], ["Hello! How can I help you?"], ["No."]),
    ("Be brief.", ["What is two and two?"], ["Four."], ["Two and two is four, and three and three is six."]),
    (None, ["Name a color.", "Blue.", "Another one."], ["Green."], ["Blue."]),
    ("Answer in French.", ["What is cheese?"], ["Le fromage est du lait caillé."], ["Cheese is what it is."]),
    (None, ["日本の首都は?"], ["東京です。"], ["京都です。"]),
    ("Be brief.", ["One?", "Two.", "Three?", "Four.", "Five?"], ["Six."], ["Five."]),
    (None, ["What is the sun?"], ["The sun is a star."], ["The sun is a book."]),  # a shared beginning
    (None, ["Say nothing."], [""], ["Nothing?"]),
    ("You are a helpful assistant.", ["How do I print a line in C, and how do I print two lines?"],
     ["Like this:\n\n```c\nputs(\"hi\");\n```\n\nAnd two lines:\n\n```c\nputs(\"hi\\nhi\");\n```"], ["I am in doubt."]),
    # Messages are shared: the implicit prompt has them.
    (None, ["Name a color."], ["Blue.", "Another one.", "Green."], ["Blue.", "Another one.", "Blue."]),
    (None, ["Is water wet?"], ["Yes, it is."], ["Yes, it is.", "Is it?", "No."]),  # one begins the other
    ("Отвечай кратко.", ["Как дела?"], ["Хорошо."], ["😀 Send me a smile! 🎉"]),
]

# Of the log-ratios of chosen and rejected, and the same by the completions' tokens.
LOSSES = {
    "sigmoid": lambda c, r, cn, rn: -logsigmoid(BETA * (c - r)),
    "sigmoid_norm": lambda c, r, cn, rn: -logsigmoid(BETA * (cn - rn)),
    "hinge": lambda c, r, cn, rn: torch.relu(1 - BETA * (c - r)),
    "ipo": lambda c, r, cn, rn: (cn - rn - 1 / (2 * BETA)) ** 2,
    "exo_pair": lambda c, r, cn, rn: exo(BETA * (c - r)),
    "nca_pair": lambda c, r, cn, rn: -logsigmoid(BETA * c) - (logsigmoid(-BETA * c) + logsigmoid(-BETA * r)) / 2,
    "robust": lambda c, r, cn, rn: (SMOOTHING * logsigmoid(BETA * (r - c)) - (1 - SMOOTHING) * logsigmoid(BETA * (c - r)))
    / (1 - 2 * SMOOTHING),
    "bco_pair": lambda c, r, cn, rn: -logsigmoid(BETA * c) - logsigmoid(-BETA * r),
    "sppo_hard": lambda c, r, cn, rn: (c - 0.5 / BETA) ** 2 + (r + 0.5 / BETA) ** 2,
    "apo_zero": lambda c, r, cn, rn: 1 - torch.sigmoid(BETA * c) + torch.sigmoid(BETA * r),
    "apo_down": lambda c, r, cn, rn: torch.sigmoid(BETA * c) + 1 - torch.sigmoid(BETA * (c - r)),
    "discopop": lambda c, r, cn, rn: discopop(BETA * (c - r)),
}
SMOOTHED = ["exo_pair", "robust"]


def exo(logits):
    rate = torch.tensor(SMOOTHING, dtype=logits.dtype)
    return (torch.sigmoid(logits) * (logsigmoid(logits) - torch.log1p(-rate))
            + torch.sigmoid(-logits) * (logsigmoid(-logits) - torch.log(rate)))


def discopop(logits):
    part = torch.sigmoid(logits / TAU)
    return -logsigmoid(logits) * (1 - part) + torch.exp(-logits) * part


def messages_of(said, first="user"):
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]


def records_of():
    chats = []
    for system, said, chosen, rejected in CHATS:
        prompt = [{"role": "system", "content": system}] if system is not None else []
        chats.append({"prompt": prompt + messages_of(said), "chosen": messages_of(chosen, "assistant"),
                      "rejected": messages_of(rejected, "assistant")})
    return {
        "pairs_text": [dict(zip(("prompt", "chosen", "rejected"), one, strict=True)) for one in TEXTS],
        "pairs_chat": chats,
        "pairs_implicit": [{side: one["prompt"] + one[side] for side in ("chosen", "rejected")} for one in chats],
        "pairs_implicit_text": [dict(zip(("chosen", "rejected"), one, strict=True)) for one in IMPLICIT_TEXTS],
    }


def model_of(folder, dtype=torch.float32):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")


def make_reference():
    torch.manual_seed(3)
    model = model_of(MODEL)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value), alpha=0.05)
    shutil.rmtree(REFERENCE, ignore_errors=True)
    model.save_pretrained(REFERENCE)


class Told:
    """Keeps what a trainer logs before it is rounded, and the losses, which it logs as they are added up in fp32."""

    def __init__(self, **options):
        self.micro, self.told = [], {name: [] for name in ["loss", "grad_norm", *LOGGED]}
        super().__init__(**options)

    def compute_loss(self, *args, **options):
        loss = super().compute_loss(*args, **options)
        self.micro.append(loss.item())
        return loss

    def log(self, logs, start_time=None):
        if "loss" in logs:
            self.told["loss"].append(sum(self.micro) / len(self.micro))
            self.told["grad_norm"].append(logs["grad_norm"])
            assert len(self.micro) == self.args.gradient_accumulation_steps and abs(self.told["loss"][-1] - logs["loss"]) < 1e-5
            self.micro.clear()
            for name in LOGGED:
                values = self.logged()[name]
                self.told[name].append(sum(values) / len(values))
        super().log(logs, start_time)


class Trainer(Told, trl.DPOTrainer):
    def logged(self):
        return self._metrics["train"]


class FreeTrainer(Told):
    """One without a reference, of samples that are tokens already."""

    def __init__(self, samples, **options):
        self.samples = samples
        super().__init__(**options)

    def tokenize_row(self, feature, model=None):
        row = {}
        for side, one in self.samples[feature["index"]].items():
            ids, mask = one["ids"], one["mask"]
            row |= {f"{side}_input_ids": ids, f"{side}_attention_mask": [1] * len(ids),
                    f"{side}_labels": [i if m else -100 for i, m in zip(ids, mask, strict=True)]}
        prompt = one["ids"][:one["mask"].index(1)]
        return row | {"prompt_input_ids": prompt, "prompt_attention_mask": [1] * len(prompt)}

    def logged(self):
        return self._stored_metrics["train"]


class Orpo(FreeTrainer, ORPOTrainer):
    pass


class Cpo(FreeTrainer, CPOTrainer):
    pass


def settings_of(config, micro, **options):
    return config(
        output_dir=os.environ["HF_HOME"], per_device_train_batch_size=micro,
        gradient_accumulation_steps=BATCH // micro, train_sampling_strategy="sequential", max_steps=STEPS, learning_rate=RATE,
        lr_scheduler_type="constant", warmup_steps=0, optim="adamw_torch", adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8,
        weight_decay=0.0, max_grad_norm=0.0, seed=0, bf16=False, fp16=False, use_cpu=True, gradient_checkpointing=False,
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, dataloader_pin_memory=False, **options)


def free_trainer_of(records, samples, loss, micro=BATCH, lora=False, **options):
    kind, config = (Orpo, ORPOConfig) if loss == "orpo" else (Cpo, CPOConfig)
    if loss != "orpo":
        options["loss_type"] = "sigmoid" if loss == "cpo" else loss
    model = model_of(MODEL)
    trainer = kind(samples=samples, args=settings_of(config, micro, max_length=1024, **options),
                   model=peft.PeftModel.from_pretrained(model, ADAPTER, is_trainable=True) if lora else model,
                   train_dataset=datasets.Dataset.from_list([{**record, "index": i} for i, record in enumerate(records)]),
                   processing_class=transformers.AutoTokenizer.from_pretrained(MODEL))
    trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
    return trainer


def trainer_of(records, loss="sigmoid", micro=BATCH, reference=None, lora=False, max_length=None):
    settings = settings_of(trl.DPOConfig, micro, loss_type=[loss], beta=BETA, discopop_tau=TAU, max_length=max_length,
                           label_smoothing=SMOOTHING if loss in SMOOTHED else 0.0)
    data = datasets.Dataset.from_list([{**record, "index": i} for i, record in enumerate(records)])
    trainer = Trainer(model=model_of(MODEL), ref_model=model_of(reference) if reference else None, args=settings,
                      train_dataset=data, processing_class=transformers.AutoTokenizer.from_pretrained(MODEL),
                      peft_config=peft.LoraConfig(task_type="CAUSAL_LM", **LORA) if lora else None)
    trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
    return trainer


def samples_of(trainer):
    """As they are put into a batch, of one pair."""
    samples = []
    for one in trainer.train_dataset:
        batch = trainer.data_collator([one])
        there = [mask.bool() for mask in batch["attention_mask"]]
        samples.append({side: {"ids": batch["input_ids"][i][there[i]].tolist(),
                               "mask": batch["completion_mask"][i][there[i]].tolist()}
                        for i, side in enumerate(("chosen", "rejected"))})
    return samples


def padded(rows, filler):
    length = max(map(len, rows))
    return torch.tensor([row + [filler] * (length - len(row)) for row in rows])


def sums_of(model, rows):
    """The sums of the completions' log-probabilities, and how many tokens they have."""
    ids, counted = padded([row["ids"] for row in rows], 2), padded([row["mask"] for row in rows], 0)
    there = padded([[1] * len(row["ids"]) for row in rows], 0)
    told = torch.log_softmax(model(input_ids=ids, attention_mask=there).logits[:, :-1], -1)
    told = told.gather(-1, ids[:, 1:, None]).squeeze(-1) * counted[:, 1:]
    return told.sum(-1), counted.sum(-1)


def apart(some, others):
    return max(abs(a - b) for a, b in zip(some, others, strict=True))


def references_of(folder, trainer, samples):
    """By DPOTrainer, whose reference the folder's model is, and by hand in fp64."""
    told = {"chosen": [], "rejected": []}
    for i in range(0, len(samples), BATCH):
        batch = trainer.data_collator([trainer.train_dataset[j] for j in range(i, min(i + BATCH, len(samples)))])
        for side, sums in zip(told, trainer.compute_ref_log_probs(trainer.ref_model, batch), strict=True):
            told[side] += sums.tolist()
    model = model_of(folder, torch.float64).eval()
    with torch.no_grad():
        told |= {f"{side}_fp64": sums_of(model, [one[side] for one in samples])[0].tolist() for side in ("chosen", "rejected")}
    assert all(apart(told[side], told[f"{side}_fp64"]) < 2e-4 for side in ("chosen", "rejected"))
    return told


def free_losses(loss, sums, counts, beta, cpo_alpha=1.0, simpo_gamma=0.5, label_smoothing=0.0):
    """What each pair loses, and the rewards: of (chosen, rejected) sums, and tokens, of log-probabilities."""
    means = sums if loss == "cpo" else sums / counts
    c, r = means.chunk(2)
    if loss == "orpo":
        value = -beta * logsigmoid(c - r - torch.log(-torch.expm1(c)) + torch.log(-torch.expm1(r)))
    else:
        z = beta * (c - r) - (simpo_gamma if loss == "simpo" else 0.0)
        value = -(1 - label_smoothing) * logsigmoid(z) - label_smoothing * logsigmoid(-z)
    return value, beta * c, beta * r, means


def free_by_hand(samples, dtype, loss, micro=BATCH, lora=False, beta=BETA, **options):
    model = model_of(MODEL, dtype)
    if lora:
        model = peft.PeftModel.from_pretrained(model, ADAPTER, is_trainable=True).to(dtype)
    learnt = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    told = {name: [] for name in ["loss", "grad_norm", *LOGGED, "closest"]}
    for step in range(STEPS):
        parts, figures = [], []
        for first in range(step * BATCH, (step + 1) * BATCH, micro):
            pairs = [samples[i % len(samples)] for i in range(first, first + micro)]
            rows = [one["chosen"] for one in pairs] + [one["rejected"] for one in pairs]
            value, c, r, means = free_losses(loss, *sums_of(model, rows), beta, **options)
            # The likelihood is a mean over all tokens of the chosen texts, with orpo over their prompts, too.
            likely = [{"ids": one["ids"], "mask": [1] * len(one["ids"]) if loss == "orpo" else one["mask"]} for one in rows[:micro]]
            of_likely, _ = sums_of(model, likely)
            nll = -of_likely.sum() / sum(sum(one["mask"][1:]) for one in likely)
            part = value.mean() + (1.0 if loss == "orpo" else options.get("cpo_alpha", 1.0)) * nll
            (part * micro / BATCH).backward()
            parts.append(part.item())
            figures.append([one.detach() for one in (c, r, (c > r).to(dtype), c - r, *means.chunk(2))])
        told["loss"].append(sum(parts) / len(parts))
        told["grad_norm"].append(torch.nn.utils.get_total_norm([one.grad for one in learnt]).item())
        of_step = [torch.cat(one) for one in zip(*figures, strict=True)]
        for name, figure in zip(LOGGED, of_step, strict=True):
            told[name].append(figure.mean().item())
        told["closest"].append(of_step[3].abs().min().item())
        optimizer.step()
        optimizer.zero_grad()
    return told


def by_hand(samples, dtype, loss="sigmoid", micro=BATCH, reference=None, lora=False):
    model, base = model_of(MODEL, dtype), model_of(reference or MODEL, dtype)
    if lora:
        model = peft.PeftModel.from_pretrained(model, ADAPTER, is_trainable=True).to(dtype)
    learnt = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    told = {name: [] for name in ["loss", "grad_norm", *LOGGED, "closest"]}
    for step in range(STEPS):
        pairs = [samples[i % len(samples)] for i in range(step * BATCH, (step + 1) * BATCH)]
        rows = [one["chosen"] for one in pairs] + [one["rejected"] for one in pairs]
        sums, counts = sums_of(model, rows)
        with torch.no_grad():
            before, _ = sums_of(base, rows)
        (c, r), (cn, rn) = (sums - before).chunk(2), ((sums - before) / counts).chunk(2)
        value = LOSSES[loss](c, r, cn, rn).mean()
        value.backward()
        told["loss"].append(value.item())
        told["grad_norm"].append(torch.nn.utils.get_total_norm([one.grad for one in learnt]).item())
        margins = BETA * (c - r)
        figures = [BETA * c, BETA * r, (margins > 0).to(dtype), margins, *sums.chunk(2)]
        for name, figure in zip(LOGGED, figures, strict=True):
            told[name].append(figure.mean().item())
        told["closest"].append(margins.abs().min().item())
        optimizer.step()
        optimizer.zero_grad()
    return told


def run_of(name, file, records, samples, **options):
    trainer = trainer_of(records, **options)
    assert isinstance(trainer._get_train_sampler(), torch.utils.data.SequentialSampler)
    if options.get("lora"):
        shutil.rmtree(ADAPTER, ignore_errors=True)
        trainer.model.peft_config["default"].base_model_name_or_path = f"../{MODEL}"
        trainer.model.save_pretrained(ADAPTER)
        trainer.model.peft_config["default"].base_model_name_or_path = MODEL
        (pathlib.Path(ADAPTER) / "README.md").unlink()
    told = checked(name, trainer, by_hand, samples, options)
    loss = options.get("loss", "sigmoid")
    how = {"file": f"{file}.jsonl", "loss_type": loss, "label_smoothing": SMOOTHING if loss in SMOOTHED else 0.0,
           "micro_batch": options.get("micro", BATCH), "reference": options.get("reference", MODEL),
           "adapter": ADAPTER if options.get("lora") else None}
    return {"options": how, **told}


def checked(name, trainer, by_hand, samples, options):
    trainer.train()
    told = trainer.told
    hand, double = (by_hand(samples, dtype, **options) for dtype in (torch.float32, torch.float64))
    far = [max(apart(told[key], other[key]) / max(1.0, *map(abs, told[key])) for key in told) for other in (hand, double)]
    print(f"{name}: {told['loss']}\n  apart by hand {far[0]:.2g}, in fp64 {far[1]:.2g}; norms {told['grad_norm']}; "
          f"closest margins {double['closest']}", flush=True)
    assert max(far) < 5e-5 and min(double["closest"][1:]) > 1e-5
    return {**told, "loss_fp64": double["loss"], "grad_norm_fp64": double["grad_norm"]}


def free_runs_of(records, samples):
    def run(name, file="pairs_chat", **options):
        trainer = free_trainer_of(records[file], samples[file], **options)
        told = checked(name, trainer, free_by_hand, samples[file], options)
        return {"options": {"file": f"{file}.jsonl", **options}, **told}

    runs = {}
    for loss in ["orpo", "simpo", "cpo"]:
        runs[loss] = run(loss, loss=loss)
        runs[f"{loss}_text"] = run(f"{loss}_text", "pairs_text", loss=loss)
        for micro in (2, 1):  # the likelihood is a mean of their means
            runs[f"{loss}_by_{micro}"] = run(f"{loss}_by_{micro}", loss=loss, micro=micro)
    runs["orpo_lora"] = run("orpo_lora", loss="orpo", lora=True)
    runs["orpo_beta"] = run("orpo_beta", loss="orpo", beta=0.5)
    runs["simpo_alone"] = run("simpo_alone", loss="simpo", beta=2.0, cpo_alpha=0.0, simpo_gamma=1.0)
    runs["cpo_smoothed"] = run("cpo_smoothed", loss="cpo", cpo_alpha=0.25, label_smoothing=SMOOTHING)
    return runs


def runs_of(records, samples):
    def run(name, file="pairs_chat", **options):
        return run_of(name, file, records[file], samples[file], **options)

    runs = {loss: run(loss, loss=loss) for loss in LOSSES}
    runs["sigmoid_text"] = run("sigmoid_text", "pairs_text")
    runs["sigmoid_lora"] = run("sigmoid_lora", lora=True)
    runs["sigmoid_accumulated"] = run("sigmoid_accumulated", micro=BATCH // 2)
    runs["sigmoid_reference"] = run("sigmoid_reference", reference=REFERENCE)
    whole, parts = runs["sigmoid"], runs["sigmoid_accumulated"]
    far = max(apart(whole[key], parts[key]) for key in ["loss", "grad_norm", *LOGGED[:4]])
    parts["apart_from_sigmoid"] = far  # of all but the sums of log-probabilities, which are large
    print(f"accumulated: apart by {far:.2g}")
    return runs


def truncated_of(records, samples):
    kept = trainer_of(records, max_length=SHORT)
    told, dropped = samples_of(kept), sorted(set(range(len(records))) - set(kept.train_dataset["index"]))
    for i, one in zip(kept.train_dataset["index"], told, strict=True):
        assert one == {side: {key: row[:SHORT] for key, row in rows.items()} for side, rows in samples[i].items()}
        assert all(sum(row["mask"]) for row in one.values())
    assert dropped and any(len(row["ids"]) == SHORT for one in told for row in one.values())
    return {"file": "pairs_chat.jsonl", "max_length": SHORT, "truncation_mode": "keep_start", "dropped": dropped,
            "kept": kept.train_dataset["index"][:], "samples": told}


def text_of(value, deep=0):
    """JSON with a line to each sample and each of a run's figures."""
    if isinstance(value, dict) and deep < 3:
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {text_of(one, deep + 1)}" for key, one in value.items()) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]"
    return json.dumps(value)


def main():
    os.chdir(FOLDER)  # models' paths are relative to it
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    records = records_of()
    assert len(TEXTS) == len(CHATS) == 12 and len(IMPLICIT_TEXTS) == 6
    for name, told in records.items():
        pathlib.Path(f"{name}.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told))
    make_reference()
    samples, references = {}, {MODEL: {}, REFERENCE: {}}
    for folder, told in references.items():
        for name in records:
            trainer = trainer_of(records[name], reference=folder)
            samples[name] = samples_of(trainer)
            told[name] = references_of(folder, trainer, samples[name])
    for name, told in samples.items():
        print(name, [[len(row["ids"]) for row in one.values()] for one in told])
    settings = {"batch": BATCH, "steps": STEPS, "lr": RATE, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0,
                "beta": BETA, "discopop_tau": TAU}
    truncated = truncated_of(records["pairs_chat"], samples["pairs_chat"])
    expected = {"settings": settings, "samples": samples, "truncated": truncated, "references": references,
                "runs": runs_of(records, samples) | free_runs_of(records, samples)}
    path = pathlib.Path("expected.json")
    path.write_text(text_of(expected) + "\n")
    assert json.loads(path.read_text()) == expected
    for one in FOLDER.rglob("*.safetensors"):
        one.chmod(0o644)
        assert one.stat().st_size < 100_000
    shutil.rmtree(os.environ["HF_HOME"])


if __name__ == "__main__":
    main()
