// Masks of the largest elements on the CPU: the span's, of numbers in fp32.
#include "kernels/pruning/pruning_cpu.h"

#include <vector>

#include "core/values/index.h"
#include "kernels/elementwise/spans.h"
#include "kernels/quantize/quantize_math.h"

namespace ds::kernels::detail {

void largest_mask_cpu(const Tensor& x, int64_t kept, const Tensor& mask) {
  std::vector<float> values(to_size(x.numel()));
  cast_span(x.raw(), x.dtype(), values.data(), DType::kF32, x.numel());
  mark_largest(values, kept, {mask.data<uint8_t>(), values.size()});
}

}  // namespace ds::kernels::detail
