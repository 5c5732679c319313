"""Makes the files of this folder with PyTorch itself.

usage: make.py FOLDER      (torch 2.15.0, numpy 2.4.6; any newer one gives files of the same values)

weights*: one dict of tensors as state_dict() has it, by every container that torch.save has had;
state*: what checkpoints hold besides; hostile*: programs that a reader may not run.
"""
import argparse
import collections
import os
import pathlib
import pickle
import sys
import zipfile

import numpy
import torch


def weights():
    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    made = collections.OrderedDict(
        matrix=matrix, tied=matrix, across=matrix.t(), tail=matrix.reshape(6)[4:],
        spread=torch.tensor([7.0]).expand(3), scalar=torch.tensor(-3), empty=torch.zeros(0, 4),
        bf16=torch.tensor([1.0, -2.0], dtype=torch.bfloat16), flags=torch.tensor([True, False]))
    made._metadata = collections.OrderedDict({"": {"version": 1}})
    return made


def state():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.step()
    defaults = collections.defaultdict(dict)
    defaults["k"] = 1
    return {
        "step": 7, "rate": 0.25, "seed": 2**64 - 59, "raw": bytes(range(256)), "none": None,
        "names": ["a", "b\u00e4"], "members": {1, 2}, "size": torch.Size([2, 3]), "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1), "arguments": argparse.Namespace(lr=0.5, name="x"),
        "defaults": defaults, "milestones": collections.Counter([10, 20]), "parameter": parameter,
        "array": numpy.arange(3), "scalar": numpy.float64(1.5),
        "float8": torch.ones(2).to(torch.float8_e4m3fn), **optimizer.state_dict()}


class Runs:
    """Reduces to a call, as a hostile file does."""
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def deflate(source, target):
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as write:
        for name in read.namelist():
            write.writestr(zipfile.ZipInfo(name), read.read(name), zipfile.ZIP_DEFLATED)


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.save(weights(), folder / "weights.pt")
    torch.save(weights(), folder / "weights_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(weights(), folder / "weights_protocol_5.pt", pickle_protocol=5)
    deflate(folder / "weights.pt", folder / "weights_deflated.pt")
    torch.save(state(), folder / "state.pt")
    torch.save(state(), folder / "state_protocol_5.pt", pickle_protocol=5)
    command = "touch ran"
    torch.save({"w": torch.ones(1), "x": Runs(os.system, command)}, folder / "hostile_system.pt")
    torch.save(Runs(os.system, command), folder / "hostile_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save([Runs(eval, "1 + 1")], folder / "hostile_eval.pt")
    torch.save(Runs(getattr, Runs(getattr, torch.float16, "__class__"), "__base__"),
               folder / "hostile_getattr.pt")
    with open(folder / "hostile_plain.pkl", "wb") as file:
        pickle.dump(Runs(os.system, command), file, protocol=4)


main()
