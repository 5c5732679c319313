"""Makes blocks.txt: weights in blocks, and what bitsandbytes (nf4) and numpy's formulas (int8, fp8, scales of 8 bits) make of
them. Numbers are the bits of fp32, bf16 or fp16 in hexadecimal digits. The formulas have to give bitsandbytes' codes, too.

usage: make_blocks.py > blocks.txt
Made with bitsandbytes 0.50.2, torch 2.15.0 and numpy (as blocks.txt says), on the CPU with one thread.
"""
import sys

import bitsandbytes
import bitsandbytes.functional as bnb
import numpy as np
import torch

F32 = np.float32
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def levels_of(table):
    """The levels in ascending order, and the byte that is the code of each."""
    if table == "nf4":
        return bnb.get_4bit_type("nf4", device="cpu").numpy(), np.arange(16)
    if table == "int8":
        numbers = np.arange(-127, 128)
        return numbers.astype(F32) / F32(127), numbers & 255
    numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    codes = np.flatnonzero(np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers)))
    codes = codes[np.argsort(numbers[codes])]
    return numbers[codes] / F32(448), codes


def midpoints_of(table):
    levels, _ = levels_of(table)
    return (levels[:-1] + levels[1:]) / F32(2)


SCALES = np.array([(code & 15) * 2.0**-13 if code < 16 else (1 + (code & 15) / 16) * 2.0**((code >> 4) - 10)
                   for code in range(256)])


def scale_code(absmax):
    """The nearest, half to even; of what is not 0, never 0; of what is beyond the largest, that."""
    distance = np.abs(SCALES - min(float(absmax), SCALES[-1]))
    nearest = np.flatnonzero(distance == distance.min())
    code = next((code for code in nearest if code % 2 == 0), nearest[0])
    return max(code, 1) if absmax > 0 else 0


def by_formula(table, x, block):
    levels, codes = levels_of(table)
    rows = x.reshape(-1, block)
    absmax = np.abs(rows).max(axis=1)
    scaled = np.clip(rows * (F32(1) / np.maximum(absmax, F32(1e-38)))[:, None], F32(-1), F32(1))
    ranks = np.searchsorted(midpoints_of(table), scaled, side="left")
    return ranks, codes[ranks].reshape(-1), absmax


def hexed(tensor):
    if tensor.dtype == torch.float32:
        return ",".join(f"{bits & 0xffffffff:x}" for bits in tensor.view(torch.int32).tolist())
    return ",".join(f"{bits & 0xffff:x}" for bits in tensor.view(torch.int16).tolist())


def case(table, scale, dtype, block, x):
    weights = torch.from_numpy(x).to(DTYPES[dtype])
    x = weights.float().numpy()
    ranks, codes, absmax = by_formula(table, x, block)
    packed = bytes(codes.astype(np.uint8))
    theirs = None  # which has no blocks below 32
    if table == "nf4":
        packed = bytes((codes[::2] << 4 | codes[1::2]).astype(np.uint8))
    if table == "nf4" and block >= 32:
        theirs, state = bnb.quantize_4bit(weights, blocksize=block, quant_type="nf4")
        assert bytes(theirs.flatten().numpy()) == packed and state.absmax.numpy().tobytes() == absmax.tobytes()
    kept, fits = absmax, np.isfinite(absmax)
    scales = absmax.tobytes()
    if scale == "fp8":
        of_blocks = np.array([scale_code(one) for one in absmax], dtype=np.uint8)
        kept, fits, scales = SCALES[of_blocks].astype(F32), absmax < 63, of_blocks.tobytes()
    back = torch.from_numpy(levels_of(table)[0][ranks] * kept[:, None]).reshape(-1).to(DTYPES[dtype])
    if theirs is not None and scale == "fp32":
        theirs = bnb.dequantize_4bit(theirs, state).flatten()
        assert torch.equal(theirs.view(torch.uint8), back.view(torch.uint8))
        back = theirs
    print(f"\n{table} scale={scale} dtype={dtype} block={block} x={hexed(weights)}\n----")
    print(f"codes {packed.hex()}\nscales {scales.hex()}\nunfit {np.count_nonzero(~fits)}\nweights {hexed(back)}")


def normal(seed, count, size=0.05):
    return (np.random.default_rng(seed).standard_normal(count) * size).astype(F32)


def around(table):
    """Every midpoint, and for a few levels what lies next to it, in a block whose absmax is 1."""
    points = midpoints_of(table)
    if len(points) < 64:
        points = np.concatenate([points, np.nextafter(points, F32(-2)), np.nextafter(points, F32(2))])
    return np.concatenate([points, np.ones(-len(points) % 64 or 64, F32)]).astype(F32)


def with_outlier(seed):
    x = normal(seed, 64)
    x[17] = -50
    return x


def main():
    torch.set_num_threads(1)
    print(f"# Made by make_blocks.py with bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__} and numpy "
          f"{np.__version__}: packed blocks of weights.")
    odd = np.concatenate([np.zeros(64, F32), np.full(64, -0.0, F32), normal(2, 64) / F32(0.2) * F32(1.1e-38) + F32(1.05e-38)])
    for scale in ("fp32", "fp8"):
        case("nf4", scale, "fp32", 64, np.concatenate([normal(1, 128), around("nf4"), odd, with_outlier(3)]))
        case("nf4", scale, "bf16", 64, np.concatenate([normal(4, 64), with_outlier(5)]))
    case("nf4", "fp32", "fp16", 64, normal(6, 64))
    case("nf4", "fp32", "fp32", 128, normal(7, 128, 1e30))
    for table in ("int8", "fp8"):
        block = len(around(table))
        case(table, "fp32", "fp32", block, around(table))
        case(table, "fp8", "fp32", 64, np.concatenate([normal(8, 64), with_outlier(9), odd[:64]]))
        case(table, "fp32", "bf16", 64, normal(10, 64))
        case(table, "fp32", "fp16", 62, normal(11, 62))
    # Scales: both sides of halves, the smallest, the largest, and beyond it.
    halves = ((SCALES[:-1] + SCALES[1:]) / 2).astype(F32)[[0, 1, 14, 15, 16, 100, 101, 253, 254]]
    ends = np.array([1e-30, 2.0**-15, 62, 62.99, 63, 64, 1e30], dtype=F32)
    tops = np.concatenate([halves, np.nextafter(halves, F32(0)), np.nextafter(halves, F32(99)), ends])
    case("nf4", "fp8", "fp32", 2, np.stack([tops, -tops / 3], axis=1).reshape(-1).astype(F32))
    sys.stdout.flush()


main()
