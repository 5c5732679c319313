"""Makes the adapters beside this file with peft, over the small models of ../families, ../supervised and ../classifiers, and
what peft makes of them. Of each case, in a folder of its own:

adapter_config.json, adapter_model.safetensors: as save_pretrained writes them, nothing in them zero.
expected.safetensors: tokens [2, 12] and, of a classifier, labels [2]; the losses (of every next token, or of every sample) and
the logits (of the last position, or of every sample); grad.KEY, the mean loss's gradient of each tensor the adapter's file has;
merged.NAME, each tensor of the base that merge_and_unload changes.

steps.json: of each case, the losses of five steps of AdamW over that batch from the adapter on, and the gradients' norms.

usage: make_lora.py [CASE ...]
Made with peft 0.21.2, torch 2.15.0, transformers 5.24.0, accelerate 1.15.0 and safetensors 0.8.0, on the CPU, in fp32, with one
thread.
"""
import json
import os
import pathlib
import shutil
import sys

FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
if any(os.environ.get(name) != value for name, value in FIXED.items()):  # peft writes sets in the order of their hashes
    os.environ.update(FIXED)
    os.execv(sys.executable, [sys.executable, *sys.argv])

import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

BATCH, LENGTH, STEPS, LABELS = 2, 12, 5, 3
SPECIAL = 4  # the first tokens mean something to some of the bases
HYPER = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
LLAMA = "../../supervised/model"
GPT2 = {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}
CASES = {
    "llama_lora": (LLAMA, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}),
    # The names of all layers but the head are written out.
    "llama_rslora": (LLAMA, {"r": 4, "lora_alpha": 6, "use_rslora": True, "target_modules": "all-linear"}),
    "llama_dora": (LLAMA, {"r": 4, "lora_alpha": 8, "use_dora": True,
                           "target_modules": ["q_proj", "o_proj", "down_proj", "gate_proj", "up_proj"]}),
    # A key is whole ends of names, or a pattern of them; the first that matches counts (in the file's order, which is that of
    # the keys), so one is never come to, and one matches nothing.
    "llama_patterns": (LLAMA, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "o_proj", "down_proj"],
                               "layers_to_transform": [1],
                               "rank_pattern": {"down_proj": 2, r"^model\.layers\.\d+\.self_attn\.[qk]_proj": 6, "proj": 1},
                               "alpha_pattern": {"[qo]_proj": 12, "self_attn.q_proj": 3}}),
    "llama_saved": (LLAMA, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head"]}),
    # The biases of keys are learnt by the latter only.
    "qwen2_bias": ("../../families/qwen2", {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj", "down_proj"],
                                            "bias": "lora_only"}),
    "qwen2_bias_all": ("../../families/qwen2", {"r": 3, "lora_alpha": 6, "bias": "all",
                                                "target_modules": r".*\.layers\.\d+\.self_attn\.(q|v)_proj"}),
    "gpt2_lora": ("../../families/gpt2_scaled", {"r": 4, "lora_alpha": 8, **GPT2}),
    "gpt2_dora": ("../../families/gpt2_scaled", {"r": 4, "lora_alpha": 4, "use_dora": True, **GPT2}),
    "phi3_joined": ("../../families/phi3", {"r": 4, "lora_alpha": 8, "target_modules": ["qkv_proj", "gate_up_proj", "o_proj"]}),
    "neox_joined": ("../../families/gpt_neox", {"r": 4, "lora_alpha": 8, "target_modules": ["query_key_value", "dense"]}),
    # peft adds the names that heads have to modules_to_save, of which the model has one.
    "bert_classifier": ("../../classifiers/bert", {"r": 4, "lora_alpha": 8, "target_modules": ["query", "value"]}),
}


def is_classifier(base):
    return "/classifiers/" in base


def base_of(base, dtype=torch.float32):
    kind = transformers.AutoModelForSequenceClassification if is_classifier(base) else transformers.AutoModelForCausalLM
    return kind.from_pretrained(base, dtype=dtype, attn_implementation="eager")


def shake(name, value):
    """Off the zeros and the ones that peft begins with, and off the base's own values."""
    if "lora_B" in name:
        torch.nn.init.normal_(value, std=0.2)
    elif "lora_magnitude_vector" in name:
        value.mul_(torch.empty_like(value).uniform_(0.6, 1.5))
    elif "lora_A" not in name:  # biases and whole modules
        value.add_(torch.randn_like(value), alpha=0.1)


def adapted(base, options):
    torch.manual_seed(7)
    kind = "SEQ_CLS" if is_classifier(base) else "CAUSAL_LM"
    model = peft.get_peft_model(base_of(base), peft.LoraConfig(task_type=kind, **options)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:
                shake(name, value)
    return model


def batch_of(base, words):
    draw = torch.Generator().manual_seed(11)
    tokens = torch.randint(SPECIAL, words, (BATCH, LENGTH), generator=draw)
    if not is_classifier(base):
        return tokens, None
    tokens[:, 0], tokens[:, -1] = 1, 2  # [CLS] and [SEP], as its tokenizer puts them
    return tokens, torch.randint(LABELS, (BATCH,), generator=draw)


def losses_of(model, tokens, labels):
    logits = model(input_ids=tokens).logits
    if labels is not None:
        return logits, torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    wanted = tokens[:, 1:]
    losses = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), reduction="none")
    return logits[:, -1], losses.view_as(wanted)


def gradients_of(model):
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def merged_of(model, base):
    """By the names of the base's own file."""
    before, after = load_file(pathlib.Path(base) / "model.safetensors"), model.merge_and_unload().state_dict()
    return {name: after[name] for name in before if name in after and not torch.equal(after[name], before[name])}


def expected_of(model, base, tokens, labels):
    logits, losses = losses_of(model, tokens, labels)
    losses.mean().backward()
    grads = peft.get_peft_model_state_dict(model, gradients_of(model))  # by the keys of the adapter's file
    told = {"tokens": tokens.int(), "losses": losses, "logits": logits}
    if labels is not None:
        told["labels"] = labels.int()
    told |= {f"grad.{name}": value for name, value in grads.items()}
    told |= {f"merged.{name}": value for name, value in merged_of(model, base).items()}
    assert torch.allclose(losses_of(model.base_model.model, tokens, labels)[1], losses, atol=1e-4)
    return {name: value.detach().clone().contiguous() for name, value in told.items()}


def loaded(base, folder, dtype=torch.float32):
    return peft.PeftModel.from_pretrained(base_of(base, dtype), folder, is_trainable=True).to(dtype).eval()


def steps_of(model, tokens, labels):
    learnt = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(learnt, **HYPER)
    told = {"losses": [], "grad_norms": []}
    for _ in range(STEPS):
        loss = losses_of(model, tokens, labels)[1].mean()
        optimizer.zero_grad()
        loss.backward()
        told["losses"].append(loss.item())
        told["grad_norms"].append(torch.nn.utils.get_total_norm([value.grad for value in learnt]).item())
        optimizer.step()
    return told


def apart(some, others):
    return max(abs(a - b) / abs(b) for name in some for a, b in zip(some[name], others[name], strict=True))


def check(case, folder, expected):
    stored = load_file(folder / "adapter_model.safetensors")
    assert set(stored) == {name.removeprefix("grad.") for name in expected if name.startswith("grad.")}
    for name, value in [*stored.items(), *expected.items()]:
        assert torch.count_nonzero(value), name
    assert all(path.stat().st_size < 100_000 for path in folder.iterdir())
    print(case, {path.name: path.stat().st_size for path in sorted(folder.iterdir())})


def make(case, folder):
    base, options = CASES[case]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)  # the base's path is relative to it
    model = adapted(base, options)
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    tokens, labels = batch_of(base, model.config.vocab_size)
    expected = expected_of(model, base, tokens, labels)
    save_file(expected, folder / "expected.safetensors")
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)
    read = loaded(base, folder)
    assert torch.equal(losses_of(read, tokens, labels)[1], expected["losses"])
    steps = steps_of(read, tokens, labels)
    double = apart(steps, steps_of(loaded(base, folder, torch.float64), tokens, labels))
    print(f"{case}: {steps['losses']}, apart from fp64's by {double:.2g}")
    assert double < 1e-3
    check(case, folder, expected)
    return steps


def main():
    folder = pathlib.Path(__file__).resolve().parent
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    path = folder / "steps.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    told |= {case: make(case, folder / case) for case in sys.argv[1:] or CASES}
    path.write_text(json.dumps({case: told[case] for case in CASES if case in told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
