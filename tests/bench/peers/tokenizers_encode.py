"""Seconds that PyPI tokenizers takes to encode the lines of a text on one thread, and how many ids they are.

usage: tokenizers_encode.py TOKENIZER_JSON TEXT
"""
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

tokenizer = Tokenizer.from_file(sys.argv[1])
with open(sys.argv[2], encoding="utf-8", newline="") as file:
    lines = file.read().split("\n")
begun = time.perf_counter()
ids = 0
for first in range(0, len(lines), 1000):
    ids += sum(len(found.ids) for found in tokenizer.encode_batch_fast(lines[first:first + 1000], add_special_tokens=False))
print(time.perf_counter() - begun, ids)
