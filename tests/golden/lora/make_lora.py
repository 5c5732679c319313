"""Makes the adapters beside this file with peft, over the small models of ../families, ../supervised and ../classifiers, and
what peft makes of them. Of each case, in a folder of its own:

adapter_config.json, adapter_model.safetensors: as save_pretrained writes them, nothing in them zero.
expected.safetensors: tokens [2, 12] and, of a classifier, labels [2]; the losses (of every next token, or of every sample) and
the logits (of the last position, or of every sample); grad.KEY, the mean loss's gradient of each tensor the adapter's file has;
merged.NAME, each tensor of the base that merge_and_unload changes.

steps.json: of each case, the losses of five steps of AdamW over that batch from the adapter on, and the gradients' norms.

QUANTISED are cases over a base whose linear layers, but for the head, have been quantised in blocks and read back into fp32.
Of these, merged.NAME are over what was read back, expected.safetensors also has trained.KEY, the adapter after the five steps,
and steps.json has
base: the format of the weights;
quantised: the SHA-256 of each that is quantised, by its name in the base's file, as read back (fp32, little-endian, in the
file's order);
dequantised: one of them, its bytes in hexadecimal.

Blocks are of consecutive weights of a matrix as the base's file stores it, the last of which may be short. A weight becomes the
level nearest to weight * (1 / absmax), the lower one of two that are as near, and is read back as level * absmax, all in fp32.
nf4 is bitsandbytes' (blocks of 64, absmax in fp32). bitsandbytes on a CPU takes weight / absmax in a short last block; none of
these has one with nf4. int8 (blocks of 256) has the levels k / 127, k in -127 .. 127; fp8 (blocks of 512) the finite values of
float8_e4m3fn by 448.

transformers' own load_in_4bit with nf4 and a compute dtype of fp32 (bitsandbytes' Linear4bit) under peft on the CPU, beside
llama_nf4 and llama_nf4_dora: no difference, neither in bits of weights nor in losses, norms of gradients and the magnitudes
that DoRA begins with. gpt2_nf4 is not what transformers makes of GPT-2: Conv1D's weight is [in, out] in the file, and
transformers transposes it before bitsandbytes sees it, so that its blocks run over [out, in]. 4594 of the 5376 weights are then
others, and losses and norms are up to 27 % apart; with the blocks run so, there is no difference here either.

usage: make_lora.py [CASE ...]
Made with peft 0.21.2, torch 2.15.0, transformers 5.24.0, accelerate 1.15.0, safetensors 0.8.0, bitsandbytes 0.50.2 and numpy
2.4.6, on the CPU, in fp32, with one thread.
"""
import hashlib
import json
import os
import pathlib
import shutil
import sys

FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
if any(os.environ.get(name) != value for name, value in FIXED.items()):  # peft writes sets in the order of their hashes
    os.environ.update(FIXED)
    os.execv(sys.executable, [sys.executable, *sys.argv])

import bitsandbytes  # noqa: E402
import numpy  # noqa: E402
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
# What the case without quantising is, and the format.
QUANTISED = {
    "llama_nf4": ("llama_lora", "nf4"),
    "llama_int8": ("llama_lora", "int8"),
    "llama_fp8": ("llama_lora", "fp8"),
    "llama_nf4_dora": ("llama_dora", "nf4"),
    "gpt2_nf4": ("gpt2_lora", "nf4"),
    "gpt2_int8": ("gpt2_lora", "int8"),  # the only one with short blocks after whole ones
}
CASES |= {case: CASES[plain] for case, (plain, _) in QUANTISED.items()}
BLOCKS = {"nf4": 64, "int8": 256, "fp8": 512}
SHOWN = {LLAMA: "model.layers.0.self_attn.k_proj.weight", CASES["gpt2_nf4"][0]: "transformer.h.0.attn.c_proj.weight"}


def levels_of(form):
    """In ascending order."""
    if form == "nf4":
        return bitsandbytes.functional.get_4bit_type("nf4", device="cpu").numpy()
    if form == "int8":
        return numpy.arange(-127, 128, dtype=numpy.float32) / numpy.float32(127)
    values = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    return numpy.unique(values[numpy.isfinite(values)] + numpy.float32(0)) / numpy.float32(448)


def block_read_back(block, levels):
    largest = numpy.abs(block).max()
    assert largest > 0
    scaled = block * (numpy.float32(1) / largest)
    nearest = numpy.searchsorted((levels[:-1] + levels[1:]) / numpy.float32(2), scaled)
    exact = numpy.abs(scaled.astype(numpy.float64)[:, None] - levels.astype(numpy.float64)).argmin(axis=1)
    assert (nearest == exact).all()  # nothing hangs on how nearness is computed
    return levels[nearest] * largest


def read_back(weight, form):
    """What a weight is after quantising."""
    flat, levels, size = weight.numpy().reshape(-1), levels_of(form), BLOCKS[form]
    told = torch.from_numpy(numpy.concatenate([block_read_back(flat[at:at + size], levels)
                                               for at in range(0, flat.size, size)])).view_as(weight)
    assert told.dtype == torch.float32
    if form != "nf4":
        return told
    packed, state = bitsandbytes.functional.quantize_4bit(weight, blocksize=size, quant_type=form, compress_statistics=False)
    theirs = bitsandbytes.functional.dequantize_4bit(packed, state)
    assert weight.numel() % size == 0 and bits_of(theirs) == bits_of(told)
    return theirs


def bits_of(weight):
    return weight.numpy().astype("<f4").tobytes()


def quantised_of(model):
    kinds = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
    return [f"{name}.weight" for name, module in model.named_modules()
            if isinstance(module, kinds) and module is not model.get_output_embeddings()]


def is_classifier(base):
    return "/classifiers/" in base


def base_of(base, form, dtype=torch.float32):
    kind = transformers.AutoModelForSequenceClassification if is_classifier(base) else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(base, dtype=dtype, attn_implementation="eager")
    if form:
        weights, stored = model.state_dict(), weights_of(base)
        for name in quantised_of(model):
            weights[name].copy_(read_back(stored[name], form))
    return model


def weights_of(base):
    return load_file(pathlib.Path(base) / "model.safetensors")


def shake(name, value):
    """Off the zeros and the ones that peft begins with, and off the base's own values."""
    if "lora_B" in name:
        torch.nn.init.normal_(value, std=0.2)
    elif "lora_magnitude_vector" in name:
        value.mul_(torch.empty_like(value).uniform_(0.6, 1.5))
    elif "lora_A" not in name:  # biases and whole modules
        value.add_(torch.randn_like(value), alpha=0.1)


def adapted(base, form, options):
    torch.manual_seed(7)
    kind = "SEQ_CLS" if is_classifier(base) else "CAUSAL_LM"
    model = peft.get_peft_model(base_of(base, form), peft.LoraConfig(task_type=kind, **options)).eval()
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


def merged_of(model, base, form):
    """By the names of the base's own file."""
    before, after = weights_of(base), model.merge_and_unload().state_dict()
    if form:
        before |= {name: read_back(before[name], form) for name in quantised_of(model.base_model.model)}
    return {name: after[name] for name in before if name in after and not torch.equal(after[name], before[name])}


def expected_of(model, base, form, tokens, labels):
    logits, losses = losses_of(model, tokens, labels)
    losses.mean().backward()
    grads = peft.get_peft_model_state_dict(model, gradients_of(model))  # by the keys of the adapter's file
    told = {"tokens": tokens.int(), "losses": losses, "logits": logits}
    if labels is not None:
        told["labels"] = labels.int()
    told |= {f"grad.{name}": value for name, value in grads.items()}
    told |= {f"merged.{name}": value for name, value in merged_of(model, base, form).items()}
    assert torch.allclose(losses_of(model.base_model.model, tokens, labels)[1], losses, atol=1e-4)
    return {name: value.detach().clone().contiguous() for name, value in told.items()}


def loaded(base, form, folder, dtype=torch.float32):
    return peft.PeftModel.from_pretrained(base_of(base, form, dtype), folder, is_trainable=True).to(dtype).eval()


def loaded_in_4bit(base, folder):
    """Quantised by transformers and bitsandbytes themselves."""
    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                             bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager",
                                                              quantization_config=config, device_map="cpu")
    return peft.PeftModel.from_pretrained(model, folder, is_trainable=True).eval()


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


def weights_apart(model, base):
    """How many of the quantised weights are not those of read_back, and of how many."""
    stored, count, total = weights_of(base), 0, 0
    for name, module in model.get_base_model().named_modules():
        name = name.removesuffix(".base_layer") + ".weight"
        if isinstance(module, bitsandbytes.nn.Linear4bit) and name in stored:
            theirs = bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
            ours = read_back(stored[name], "nf4")
            count += (theirs != (ours.T if is_stored_transposed(base) else ours)).sum().item()
            total += theirs.numel()
    assert total == sum(stored[name].numel() for name in quantised_of(base_of(base, None)))
    return count, total


def is_stored_transposed(base):
    return "/gpt2" in base  # Conv1D, [in, out]


def quantised_facts(base, form):
    names, stored = quantised_of(base_of(base, None)), weights_of(base)
    back = {name: bits_of(read_back(stored[name], form)) for name in names}
    return {"base": form, "quantised": {name: hashlib.sha256(bits).hexdigest() for name, bits in back.items()},
            "dequantised": {"name": SHOWN[base], "hex": back[SHOWN[base]].hex()}}


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
    form = QUANTISED[case][1] if case in QUANTISED else None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)  # the base's path is relative to it
    model = adapted(base, form, options)
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    tokens, labels = batch_of(base, model.config.vocab_size)
    expected = expected_of(model, base, form, tokens, labels)
    read = loaded(base, form, folder)
    assert torch.equal(losses_of(read, tokens, labels)[1], expected["losses"])
    steps = steps_of(read, tokens, labels)
    exact = loaded(base, form, folder, torch.float64)
    double = apart(steps, steps_of(exact, tokens, labels))
    print(f"{case}: {steps['losses']}, apart from fp64's by {double:.2g}")
    assert double < 1e-3
    if form:
        trained, exactly = peft.get_peft_model_state_dict(read), peft.get_peft_model_state_dict(exact)
        expected |= {f"trained.{name}": value.detach().clone() for name, value in trained.items()}
        print("the trained adapter's:", max((value - exactly[name]).abs().max().item() for name, value in trained.items()))
    if form == "nf4":
        real = loaded_in_4bit(base, folder)
        print("with transformers' load_in_4bit:", *weights_apart(real, base), apart(steps, steps_of(real, tokens, labels)))
    save_file(expected, folder / "expected.safetensors")
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)
    check(case, folder, expected)
    return (quantised_facts(base, form) if form else {}) | steps


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
