// 1-bit compression of tensors: the operations of onebit_math.h. A scale is one fp32 number on the
// stream's device, so that nothing waits for the host between compression and sending. Signs are
// uint8 [sign_bytes(n)]. Operands that do not fit throw InternalError.
#pragma once

#include "core/device/tensor.h"
#include "kernels/quantize/onebit_math.h"

namespace ds::kernels {

// error += values; scale = norm2(error) / sqrt(n), or 0 of no numbers, from an fp64 sum in the
// fixed order of kernels/reduce/reduce.h; packs the signs of error, and takes scale * sign from it.
struct CompressSignsArgs {
  Tensor values = {};  // [n], fp32, bf16 or fp16; undefined: error has been added to already
  Tensor error;        // fp32 [n]
  Tensor signs;
  Tensor scale;
};
void compress_signs(Stream& stream, const CompressSignsArgs& args);

// y[i] = scale * sign[i]; y fp32, bf16 or fp16.
void expand_signs(Stream& stream, const Tensor& signs, const Tensor& scale, Tensor& y);
// y[i] += scale * sign[i]; y fp32.
void add_signs(Stream& stream, const Tensor& signs, const Tensor& scale, Tensor& y);

}  // namespace ds::kernels
