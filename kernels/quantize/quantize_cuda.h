// The CUDA half of kernels/quantize. Operands have been checked, and there are some.
#pragma once

#include "kernels/quantize/quantize_operands.h"

namespace ds::kernels::detail {

void fake_quantize_cuda(Stream& stream, const FakeOperands& operands);
void quantize_groups_cuda(Stream& stream, const Tensor& x, const GroupParts& parts, Range* ranges,
                          const LevelsView& to);
void dequantize_groups_cuda(Stream& stream, const LevelsView& from, const Tensor& y);
void quantize_int_cuda(Stream& stream, const Tensor& x, const GroupParts& parts, Range* ranges,
                       const CodesView& to);
void dequantize_int_cuda(Stream& stream, const CodesView& from, const Tensor& y);
void sum_codes_cuda(Stream& stream, const RankCodes& from, const GroupParts& parts, Range* ranges,
                    const CodesView& to);

}  // namespace ds::kernels::detail
