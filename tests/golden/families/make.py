"""Makes the golden runs of families beside this file with Hugging Face's own models: a folder of theirs with small random
weights, five steps of AdamW over sequential samples, the weights after them, and a greedy continuation of the first
sample by the first weights, with the logits of its first word. In the format of tests/model/golden_run_test.cpp.

usage: make.py FOLDER [FAMILY ...]
Made with torch 2.9.1 (distilbert, xlm-roberta, gpt2_scaled, opt_narrow, stablelm_heads, qwen3_layers, modernbert_layers and those with experts with 2.15.0) and transformers 5.24.0, on the CPU.
"""
import json
import pathlib
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file

WORDS, LENGTH, BATCH, STEPS, GENERATED = 40, 8, 2, 5, 64
LEAST_WORDS = 2  # of a continuation; capped scores and logits leave few
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.5, "rope_theta": 1000.0,
         "bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "attn_implementation": "eager"}
COMMON = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "bos_token_id", "eos_token_id", "pad_token_id", "attn_implementation")}
MIXED_LAYERS = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
OPT = {**COMMON, "ffn_dim": 24, "word_embed_proj_dim": 16, "max_position_embeddings": 80, "init_std": 0.5, "dropout": 0.0}
BERT = {**COMMON, "intermediate_size": 24, "max_position_embeddings": 84, "initializer_range": 0.5,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Encoders are given next words as targets, too: what a loss is made of does not matter to a model.
ENCODERS = ("bert", "distilbert", "modernbert", "modernbert_layers", "roberta", "xlm-roberta")
# Second names of a tied weight and its bias, which no file has.
TIED_NAMES = ("lm_head.weight", "decoder.weight", "cls.predictions.decoder.weight", "vocab_projector.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
              "lm_head.decoder.bias")
# transformers renames a tensor as it reads and writes files.
STORED_NAMES = {("gpt_neox", "lm_head.weight"): "embed_out.weight"}


def without(sizes, *names):
    return {name: value for name, value in sizes.items() if name not in names}


FAMILIES = {
    # Heads are wider than the hidden state divided by them, and samples are longer than the window.
    "mistral": lambda: transformers.MistralConfig(**SIZES, head_dim=8, max_position_embeddings=80, sliding_window=5),
    # The second layer has a window.
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, max_position_embeddings=80, tie_word_embeddings=True,
                                              use_sliding_window=True, sliding_window=3, max_window_layers=1),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=8, max_position_embeddings=80),
    # The layers with a window are no row of them, nor every so many-th.
    "qwen3_layers": lambda: transformers.Qwen3Config(**{**SIZES, "num_hidden_layers": 4}, head_dim=8, max_position_embeddings=80,
                                                     use_sliding_window=True, sliding_window=3, layer_types=MIXED_LAYERS),
    "gemma": lambda: transformers.GemmaConfig(**SIZES, head_dim=8, max_position_embeddings=80),
    # The first layer has a window, and caps are low enough to matter.
    "gemma2": lambda: transformers.Gemma2Config(**SIZES, head_dim=8, max_position_embeddings=80, sliding_window=3,
                                                query_pre_attn_scalar=5, attn_logit_softcapping=2.0,
                                                final_logit_softcapping=5.0),
    "granite": lambda: transformers.GraniteConfig(**SIZES, max_position_embeddings=80, hidden_act="gelu", mlp_bias=True,
                                                  embedding_multiplier=3.0, attention_multiplier=0.3,
                                                  residual_multiplier=0.6, logits_scaling=2.5),
    # The first and the third layer have a window, and frequencies of their own.
    "gemma3_text": lambda: transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, head_dim=8,
                                                         max_position_embeddings=80, sliding_window=3,
                                                         sliding_window_pattern=2, rope_local_base_freq=20.0,
                                                         rope_scaling={"rope_type": "linear", "factor": 2.0},
                                                         query_pre_attn_scalar=10),
    # Weights of queries, keys and values, and of gate and up, are one; half of a head turns, and there is a window.
    "phi3": lambda: transformers.Phi3Config(**without(SIZES, "rope_theta"), max_position_embeddings=160, sliding_window=5,
                                            original_max_position_embeddings=80,
                                            rope_parameters={"rope_type": "longrope", "rope_theta": 1000.0,
                                                             "partial_rotary_factor": 0.5, "short_factor": [1.3],
                                                             "long_factor": [4.0]}),
    # The second layer has no rotary positions.
    "smollm3": lambda: transformers.SmolLM3Config(**{**SIZES, "num_hidden_layers": 3}, max_position_embeddings=80,
                                                  no_rope_layer_interval=2, mlp_bias=True),
    "stablelm": lambda: transformers.StableLmConfig(**SIZES, max_position_embeddings=80, use_qkv_bias=True,
                                                    partial_rotary_factor=0.5),
    # As StableLM 2 12B: each head has a norm of its own, and the MLP reads what attention reads.
    "stablelm_heads": lambda: transformers.StableLmConfig(**SIZES, max_position_embeddings=80, partial_rotary_factor=0.5,
                                                          qk_layernorm=True, use_parallel_residual=True),
    "starcoder2": lambda: transformers.Starcoder2Config(**SIZES, max_position_embeddings=80, sliding_window=5),
    # The heads of queries, keys and values come by turns, and the MLP reads what attention reads.
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**without(SIZES, "num_key_value_heads", "rope_theta"),
                                                   max_position_embeddings=80, rotary_pct=0.5, rotary_emb_base=1000.0),
    "gpt_neox_serial": lambda: transformers.GPTNeoXConfig(**without(SIZES, "num_key_value_heads", "rope_theta"),
                                                          max_position_embeddings=80, rotary_pct=1.0, use_parallel_residual=False,
                                                          attention_bias=False, tie_word_embeddings=True),
    "olmo2": lambda: transformers.Olmo2Config(**SIZES, max_position_embeddings=80, attention_bias=True),
    # The fourth layer has no window, and its frequencies are scaled.
    "olmo3": lambda: transformers.Olmo3Config(**{**without(SIZES, "rope_theta"), "num_hidden_layers": 4}, max_position_embeddings=80,
                                              sliding_window=3, rope_parameters={
                                                  "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
                                                  "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}}),
    "opt": lambda: transformers.OPTConfig(**OPT),
    # Norms stand behind the sums, and the head is its own.
    "opt_sums": lambda: transformers.OPTConfig(**OPT, do_layer_norm_before=False, enable_bias=False, tie_word_embeddings=False,
                                               activation_function="gelu"),
    # The table of tokens is narrower than the blocks, as that of OPT-350M, whose norms stand so, too.
    "opt_narrow": lambda: transformers.OPTConfig(**{**OPT, "word_embed_proj_dim": 10}, do_layer_norm_before=False),
    # Scores are divided by the number of the layer, and by nothing else.
    "gpt2_scaled": lambda: transformers.GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=3, n_head=4, n_positions=80, n_inner=24,
                                                   initializer_range=0.5, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                                   scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True,
                                                   bos_token_id=None, eos_token_id=None, attn_implementation="eager"),
    "bert": lambda: transformers.BertConfig(**BERT, layer_norm_eps=1e-5, hidden_act="gelu_new"),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=WORDS, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=84, initializer_range=0.3, dropout=0.0,
        attention_dropout=0.0, pad_token_id=None, attn_implementation="eager"),
    # The first and the third layer see everything, the others two keys on either side.
    "modernbert": lambda: transformers.ModernBertConfig(
        **{**COMMON, "num_hidden_layers": 4}, cls_token_id=None, sep_token_id=None, intermediate_size=24,
        max_position_embeddings=80, initializer_range=0.5, local_attention=4, layer_types=["full_attention", "sliding_attention"] * 2,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
    "modernbert_layers": lambda: transformers.ModernBertConfig(
        **{**COMMON, "num_hidden_layers": 4}, cls_token_id=None, sep_token_id=None, intermediate_size=24,
        max_position_embeddings=80, initializer_range=0.5, local_attention=4, layer_types=MIXED_LAYERS,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
    # Positions begin behind the padding token, of which there is none in the samples; the head has gelu all the same.
    "mixtral": lambda: transformers.MixtralConfig(**SIZES, max_position_embeddings=80, num_local_experts=4, num_experts_per_tok=2),
    # The first layer has an MLP; all tokens go through an expert of the others beside theirs.
    "qwen2_moe": lambda: transformers.Qwen2MoeConfig(**SIZES, max_position_embeddings=80, num_experts=5, num_experts_per_tok=3,
                                                     moe_intermediate_size=12, shared_expert_intermediate_size=14, mlp_only_layers=[0]),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**{**SIZES, "num_hidden_layers": 3}, head_dim=8, max_position_embeddings=80,
                                                     num_experts=8, num_experts_per_tok=3, moe_intermediate_size=12,
                                                     norm_topk_prob=True, decoder_sparse_step=2),
    "olmoe": lambda: transformers.OlmoeConfig(**SIZES, max_position_embeddings=80, num_experts=8, num_experts_per_tok=3),
    "roberta": lambda: transformers.RobertaConfig(**{**BERT, "pad_token_id": 1}, type_vocab_size=1, hidden_act="relu"),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(**{**BERT, "pad_token_id": 3}),
}
OPTIMIZER = {"lr": 0.01, "weight_decay": 0.05, "betas": [0.9, 0.95], "eps": 1e-8}
# Keys' biases that do not turn have no gradient but rounding's, which Adam would make whole steps of; so it would of the small
# ones of a deeper model with large weights.
OPTIMIZERS = {family: {**OPTIMIZER, "eps": 1e-2} for family in ("gpt2_scaled", "stablelm", "gpt_neox", "gpt_neox_serial", "opt", "opt_sums",
                                                                "opt_narrow", "qwen3_layers", "qwen3_moe", "bert", "distilbert", "roberta",
                                                                "xlm-roberta")}
CLIP = 1.0


def write_shard(path, tokens):
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + numpy.array(tokens, dtype=numpy.uint16).tobytes())


def weights_of(model, tied):
    family = model.config.model_type
    # transformers keeps experts stacked, as a parameter of ours is, and stores them one by one.
    renamed = lambda name: name.replace(".mlp.", ".block_sparse_moe.") if family == "mixtral" else name
    stored = lambda name: STORED_NAMES.get((family, name), renamed(name))
    return {stored(name): value.detach().float().contiguous().clone() for name, value in model.state_dict().items()
            if not (tied and name in TIED_NAMES)}


def next_logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0, -1]


def continuation(model, prompt):
    tokens = list(prompt)
    for _ in range(GENERATED):
        tokens.append(int(next_logits(model, tokens).argmax()))
    return tokens[len(prompt):]


def model_and_tokens(family):
    """By the first seed with which the greedy continuation does not fall into a rut: that would hide much."""
    for seed in range(10, 1000):
        torch.manual_seed(seed)
        kind = transformers.AutoModelForMaskedLM if family in ENCODERS else transformers.AutoModelForCausalLM
        model = kind.from_config(FAMILIES[family]())
        for name, value in model.named_parameters():
            if name.endswith("bias") or "norm" in name.lower():  # which are all zeros, or all ones, otherwise
                torch.nn.init.normal_(value, value.mean().item(), 0.1)
        tokens = torch.randint(WORDS, (STEPS * BATCH * LENGTH + 1,)).tolist()
        padding = model.config.pad_token_id
        words = set(continuation(model, tokens[:2]))
        if len(words) >= LEAST_WORDS and padding not in words | set(tokens):
            print(f"{family}: seed {seed}")
            return model, tokens
    raise SystemExit(f"{family}: every continuation falls into a rut")


def make(family, folder):
    model, tokens = model_and_tokens(family)
    config = model.config
    hyper = OPTIMIZERS.get(family, OPTIMIZER)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_shard(folder / "tokens.bin", tokens)
    train = {"model": ".", "data": {"train": ["tokens.bin"], "order": "sequential", "sequence_length": LENGTH},
             "train": {"steps": STEPS, "seed": 1}, "train_batch_size": BATCH,
             "optimizer": {"type": "AdamW", "params": hyper}, "gradient_clipping": CLIP}
    (folder / "train.json").write_text(json.dumps(train, indent=1) + "\n")
    golden = {"losses": [], "grad_norms": [], "lrs": [],
              "generated": continuation(model, tokens[:2]),
              "next_logits": next_logits(model, tokens[:2]).tolist()}
    optimizer = torch.optim.AdamW(model.parameters(), **hyper)
    for step in range(STEPS):
        first = step * BATCH * LENGTH
        inputs = torch.tensor(tokens[first:first + BATCH * LENGTH]).view(BATCH, LENGTH)
        targets = torch.tensor(tokens[first + 1:first + 1 + BATCH * LENGTH])
        loss = torch.nn.functional.cross_entropy(model(inputs).logits.view(-1, WORDS), targets)
        optimizer.zero_grad()
        loss.backward()
        golden["losses"].append(loss.item())
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        golden["lrs"].append(OPTIMIZER["lr"])
        optimizer.step()
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    save_file(weights_of(model, config.tie_word_embeddings), folder / "final.safetensors")


def main():
    folder = pathlib.Path(sys.argv[1])
    for family in sys.argv[2:] or FAMILIES:
        make(family, folder / family)


if __name__ == "__main__":
    main()
