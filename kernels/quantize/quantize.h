// Quantizers of tensors: the forms of quantize_math.h, whose words on formulas, ranges and refused
// configurations hold here. Numbers are fp32, bf16 or fp16 and arithmetic is fp32; all devices give
// the same bits, but for the means of ternary and binary, whose fp64 sums each adds in an order of
// its own. Operands that do not fit throw InternalError. What groups need on the way is scratch,
// allocated here under MemoryTag::kScratch.
#pragma once

#include "core/device/tensor.h"
#include "kernels/quantize/quantize_math.h"

namespace ds::kernels {

// y = dequantized quantized x, in the dtype of x; y may be x. The random number of an element is
// that of its position.
void fake_quantize(Stream& stream, const Tensor& x, const FakeQuant& how, Tensor& y);

// Weights in groups along an axis.
struct GroupCodes {
  Tensor q;           // uint8 [rows * columns], or half of it with 4 bits
  Tensor scale, min;  // fp32 [how.group_count()]
};
void quantize_groups(Stream& stream, const Tensor& x, const GroupQuant& how,
                     const GroupCodes& codes);
void dequantize_groups(Stream& stream, const GroupCodes& codes, const GroupQuant& how, Tensor& y);

// The integer form of communication: groups are runs of group_size of the flattened numbers.
struct IntQuant {
  int bits = 8;  // 8, or 4: two codes in a byte, the first in the high half
  IntRange range = IntRange::kSymmetric;
  int64_t group_size = 1;

  void check() const;  // ConfigError
  int64_t code_bytes(int64_t numel) const { return bits == 4 ? (numel + 1) / 2 : numel; }
};
struct IntCodes {
  Tensor q;            // int8 [how.code_bytes(numel)]
  Tensor scale;        // fp32 [numel / group_size]
  Tensor offset = {};  // the same; undefined where the range is symmetric
};
void quantize_int(Stream& stream, const Tensor& x, const IntQuant& how, const IntCodes& codes);
void dequantize_int(Stream& stream, const IntCodes& codes, const IntQuant& how, Tensor& y);

// The middle of a quantized reduction (ZeRO++, arXiv 2306.10209): what all ranks have sent of the
// same `numel` numbers is dequantized, added in fp32 in rank order and quantized again. The sums
// themselves are never stored.
struct SumCodesArgs {
  IntCodes from;  // one rank after the other, each with whole bytes and whole groups
  IntQuant from_how;
  int64_t ranks = 1;
  int64_t numel = 0;
  IntCodes to;
  IntQuant to_how;
};
void sum_codes(Stream& stream, const SumCodesArgs& args);

}  // namespace ds::kernels
