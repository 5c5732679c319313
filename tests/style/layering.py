"""Checks the layer table of docs/architecture.md and the fences around third-party headers.

usage: layering.py SOURCE_DIR

A folder may include only the folders on lower lines of the table; folders on one line do not include
each other. The rooms inside of a folder have floors, too. Exit status 1 with one line per violation.
"""
import pathlib
import re
import sys

ALLOWED = {
    "core": [],
    "kernels": ["core"],
    "config": ["core"],
    "proto": ["core"],
    "cli": ["core", "config"],
    "comm": ["core", "kernels"],
    "offload": ["core", "kernels"],
    "model": ["core", "kernels", "comm", "offload", "config"],
    "optim": ["core", "kernels", "comm", "offload", "config"],
    "data": ["core", "kernels", "comm", "offload", "config"],
    "zero": ["core", "kernels", "comm", "offload", "config", "model", "optim", "data"],
    "checkpoint": ["core", "kernels", "comm", "offload", "config", "model", "optim", "data", "zero"],
    "train": ["core", "kernels", "comm", "offload", "config", "model", "optim", "data", "zero", "checkpoint"],
    "generate": ["core", "kernels", "config", "cli", "comm", "offload", "model", "optim", "data", "zero", "checkpoint",
                 "train"],
    "rankd": ["core", "kernels", "config", "proto", "cli", "comm", "offload", "model", "optim", "data", "zero",
              "checkpoint", "train", "generate"],
    "launcher": ["core", "config", "proto", "cli"],
}

# The rooms of a folder by floor, from the lowest up; "": the folder's own files. A room may include those of lower floors,
# and none of its own floor. Every room has a floor.
FLOORS = {
    "core": [["precompiled", "status"], ["libraries", "values"], ["files", "text"], ["memory", "torch"], ["cuda", "fibre", "tasks"],
             ["device"]],
    "kernels": [["cpu", "front"], ["cuda"], ["attention", "elementwise", "norm", "pooling", "preference", "reduce", "selection",
                 "step", "value_loss"],
                ["embedding", "matmul", "quantize", "rotary"], ["moe", "optimizer", "pruning", "softmax"]],
    "config": [["reader"], ["families"], ["sections"], [""], ["explain", "rules"]],
    "cli": [["", "text"], ["completion", "verbs"], ["table"]],
    "comm": [["contract"], ["calls", "mpi", "nccl", "shm"], ["tcp"], [""]],
    "offload": [["async_io"], ["", "handles"], ["tuning"]],
    "model": [["", "parallel"], ["pass"], ["exchange", "hf", "stores"], ["activations"], ["functions"], ["modules"],
              ["families", "layers"]],
    "data": [["chat", "text"], ["tokenizer"], ["tokens"], ["cache"], [""], ["efficiency", "supervised"]],
    "zero": [["peers"], ["layout"], ["state"], ["reduce", "zenflow"], [""]],
    "checkpoint": [["cuts"], ["", "deepspeed"], ["hosts"]],
    "train": [["settings"], ["batches", "measure"], ["samples", "step", "trace"], [""], ["convert", "eigenvalue", "evaluate", "reference"], ["monitor", "plan"],
              ["profile"], ["watch"]],
    "rankd": [["control", "device"], ["verbs"], [""]],
    "launcher": [["decide"], ["init", "process"], ["control"], ["report"], ["agents"], ["inventory", "run"], ["verbs"], [""]],
}

# Folders that may include of config/ only the plain structs of sections and families: headers that include no reader.
PLAIN_SECTIONS = ["model", "optim"]

# header prefix -> paths that may include it
FENCES = {
    r"cuda": [r"kernels/cuda/launch\.cuh$", r"kernels/attention/cuda/attention_cudnn\.cpp$", r"core/cuda/"],
    r"(cublas|cudnn(?!_frontend)|nccl)": [r"core/libraries/"],
    r"cudnn_frontend": [r"kernels/attention/cuda/attention_cudnn\.cpp$"],
    r"cufile\.h": [],  # core/libraries/cufile_abi.h has its names
    r"nvml\.h": [],  # core/libraries/nvml_abi.h has its names
    r"boost/": [r"core/fibre/switch_boost\.cpp$"],
    r"dlfcn\.h": [r"core/libraries/library\.cpp$"],
    r"liburing": [r"offload/async_io/engines/uring_engine\.cpp$"],
    r"mpi\.h": [r"comm/mpi/"],
    r"openssl/": [r"comm/tcp/proof\.cpp$", r"launcher/", r"rankd/"],
    r"grpc": [r"launcher/", r"rankd/"],
    r"proto/.*\.pb\.h": [r"proto/", r"launcher/", r"rankd/"],
    r"(zlib|zstd)": [r"data/text/byte_stream\.cpp$"],
    r"libdeflate": [r"core/files/(crc32|zip_reader)\.cpp$"],
    r"(dnnl|oneapi)": [r"kernels/.*\.cpp$"],
    r"hwy/": [r"kernels/cpu/", r"kernels/\w+/\w+_cpu\.cpp$", r"kernels/matmul/gemm_(packed|vector)\.cpp$",
              r"kernels/quantize/code_spans\.cpp$", r"comm/contract/rank_order_reduce\.cpp$"],
    r"CLI/": [r"cli/verb_app\.cpp$"],
    r"rapidjson": [r"config/", r"checkpoint/", r"model/hf/", r"data/chat[/_]", r"data/tokenizer/", r"data/supervised/",
                   r"data/text/(json_(lines|shape)\.cpp|record_(lines|list|objects)\.(cpp|h))$",
                   r"train/", r"generate/", r"rankd/", r"launcher/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def room_of(name):
    _, *rest = name.split("/")
    return rest[0] if len(rest) > 1 else ""


def floor_of(top, room):
    return next((number for number, rooms in enumerate(FLOORS[top]) if room in rooms), None)


def climbs(name, header):
    """What is wrong with one room of a folder that includes another one; None: nothing."""
    top = name.split("/")[0]
    if top not in FLOORS or not header.startswith(top + "/") or room_of(name) == room_of(header):
        return None
    own, other = floor_of(top, room_of(name)), floor_of(top, room_of(header))
    if own is None or other is None:
        return f"{name if own is None else header} lies in a room that FLOORS does not know"
    return f"{header} is on {'the same' if own == other else 'a higher'} floor" if other >= own else None


def is_plain_section(root, header):
    included = [found.group(1) for found in map(INCLUDE.match, (root / header).read_text().splitlines()) if found]
    return header.startswith(("config/sections/", "config/families/")) and all(
        is_plain_section(root, name) for name in included if name.startswith("config/"))


def violations(root):
    for layer, allowed in ALLOWED.items():
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                header = found.group(1)
                top = header.split("/")[0]
                if top in ALLOWED and top != layer and top not in allowed:
                    yield f"{name}:{number}: {layer} may not include {header}"
                if top == "config" and layer in PLAIN_SECTIONS and not is_plain_section(root, header):
                    yield f"{name}:{number}: {layer} may include of config/ only sections without a reader"
                if wrong := climbs(name, header):
                    yield f"{name}:{number}: {wrong}"
                for prefix, places in FENCES.items():
                    if re.match(prefix, header) and not any(re.match(p, name) for p in places):
                        yield f"{name}:{number}: {header} is fenced off from {layer}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "layering: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
