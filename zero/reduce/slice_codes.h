// Slices of buckets as integers, on their way to other ranks (ZeRO++, arXiv 2306.10209): signed
// codes of a few bits, and one fp32 scale for each run of elements. What is needed on the way comes
// from the slots and goes back to them, so that plans see it.
#pragma once

#include "kernels/quantize/quantize.h"
#include "zero/layout/bucket_slots.h"

namespace ds {

// At most so many elements have one scale. Layouts whose slices are sent as codes are padded so
// that runs are equal, and nearly as long (BucketLayout).
inline constexpr int64_t kMostPerScale = 2048;

// A SliceFormat says how one slice is made codes.
struct SliceFormat {
  int bits = 8;
  int64_t numel = 0;

  int64_t scales() const { return (numel + kMostPerScale - 1) / kMostPerScale; }
  int64_t code_bytes() const { return quant().code_bytes(numel); }
  kernels::IntQuant quant() const { return {.bits = bits, .group_size = numel / scales()}; }
};

// Slices [first, first + count) of those.
kernels::IntCodes slices_of(const kernels::IntCodes& codes, const SliceFormat& format,
                            int64_t first, int64_t count);

// The same bytes, as borrowed() has it of a tensor.
inline kernels::IntCodes borrowed(const kernels::IntCodes& codes) {
  return {.q = borrowed(codes.q), .scale = borrowed(codes.scale)};
}

// The work on the codes of one bucket, given to who talks to peers. Everything that it has taken
// must have gone back before it ends.
class CodeWork {
 public:
  CodeWork(BucketSlots& slots, const StoreStreams& streams, const SliceFormat& format,
           int64_t slices);
  CodeWork(const CodeWork&) = delete;  // gives its scratch memory back, exactly once
  CodeWork& operator=(const CodeWork&) = delete;
  ~CodeWork();

  kernels::IntCodes take(int64_t slices);
  void give_back(kernels::IntCodes& codes);
  // x: as many slices as `codes` has.
  void quantize(const Tensor& x, const kernels::IntCodes& codes);
  void dequantize(const kernels::IntCodes& codes, const Tensor& y);
  // `from`: of one rank after the other, each with as many slices as `to`.
  void sum(const kernels::IntCodes& from, int64_t ranks, const kernels::IntCodes& to);

 private:
  BucketSlots& slots_;
  const StoreStreams streams_;
  const SliceFormat format_;
  Tensor scratch_;
};

}  // namespace ds
