"""Checks that every key of the configuration whose fields() says Effect::kUsed is named outside of config/: its member
in the source of a layer that could use it. What only config/ itself needs is listed below with the reason.

usage: effects.py SOURCE_DIR
"""
import pathlib
import re
import sys

LAYERS = ["train", "generate", "rankd", "launcher", "model", "optim", "data", "zero", "checkpoint"]

# Section and member, and where in config/ the key has its effect.
USED_IN_CONFIG = {
    ("Config", "vocabulary_size"): "a rule warns of sizes that matrix units dislike",
    ("AdamParams", "adam_w_mode"): "decays_decoupled() in config/sections/optimizer.cpp asks it",
    ("AdamParams", "torch_adam"): "config/load.cpp takes the default of weight_decay from it",
    ("DataTypesConfig", "param_dtype"): "a rule compares it with the precision of training",
    ("PartitionConfig", "use_default_specs"): "follow_rules() in config/sections/split compares rules with the family",
    ("LayerSpecConfig", "partition_type"): "follow_rules() in config/sections/split compares rules with the family",
    ("LayerSpecConfig", "model_types"): "follow_rules() in config/sections/split compares rules with the family",
    ("ElasticityConfig", "max_train_batch_size"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "micro_batch_sizes"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "model_parallel_size"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "min_gpus"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "max_gpus"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "prefer_large_batch"): "config/elastic_options.cpp makes the batch of it",
    ("ElasticityConfig", "ignore_non_elastic_batch_info"): "a rule permits batch keys beside elasticity",
    ("ElasticityConfig", "num_gpus_per_node"): "config/elastic_options.cpp makes the batch of it",
    ("Bf16Config", "bf16_master_weights_and_grads"): "key_without_masters() in config/config.cpp asks it",
    ("Fp16Config", "fp16_master_weights_and_grads"): "key_without_masters() in config/config.cpp asks it",
    ("ZeroConfig", "stage3_gather_16bit_weights_on_model_save"): "gathered_dtype() in config/config.cpp asks it",
}

# What families say of themselves beside their fields(): dimensions() and transformer(), of which the model is built.
FAMILIES = "config/families/**/*.[hc]*"

FUNCTION = re.compile(r"^void (\w+)\(Visitor& \w+, (\w+)& \w+\) \{$(.*?)^\}$", re.M | re.S)
FIELD = re.compile(r"\bv\.field\(\s*\"[^\"]+\",\s*(?:\w+\.)?(\w+),\s*\{(.*?)\}\);", re.S)
# A member that is asked for, or a key by its name; what only an initialiser sets is not asked for.
MENTION = re.compile(r"""(?:(?<=[\w)\]]\.)|(?<=[\w)\]]->)|(?<="))(\w+)""")


def used_members(root):
    sections = sorted((root / "config/sections").glob("*.cpp"))
    for path in [root / "config/config.cpp", *sections, *sorted(root.glob(FAMILIES))]:
        for function in FUNCTION.finditer(path.read_text()):
            for field in FIELD.finditer(function.group(3)):
                if "Effect::kUsed" in field.group(2):
                    yield function.group(2), field.group(1)


def words_outside(root):
    words = set()
    for layer in LAYERS:
        for path in (root / layer).rglob("*"):
            if path.suffix in (".cpp", ".h"):
                words.update(MENTION.findall(path.read_text()))
    for path in root.glob(FAMILIES):
        words.update(MENTION.findall(FUNCTION.sub("", path.read_text())))
    return words


def main():
    root = pathlib.Path(sys.argv[1])
    used = set(used_members(root))
    words = words_outside(root)
    problems = []
    if len(used) < 100:
        problems.append(f"only {len(used)} used keys found in config/: this check no longer reads fields()")
    for section, member in sorted(used):
        if member not in words and (section, member) not in USED_IN_CONFIG:
            problems.append(f"{section}.{member}: said to be used, but nothing outside of config/ names it")
    for section, member in sorted(USED_IN_CONFIG):
        if (section, member) not in used:
            problems.append(f"{section}.{member}: listed here, but its fields() does not say kUsed")
        elif member in words:
            problems.append(f"{section}.{member}: listed here, but named outside of config/ as well")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
