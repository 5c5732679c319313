// Masks of the largest elements; see pruning.h.
#include "kernels/pruning/pruning.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/pruning/pruning_cpu.h"
#include "kernels/pruning/pruning_cuda.h"
#include "kernels/quantize/quantize_math.h"

namespace ds::kernels {

void largest_mask(Stream& stream, const Tensor& x, double keep, Tensor& mask) {
  constexpr std::string_view kOp = "largest_mask";
  DS_CHECK(x.defined(), "{}: x is undefined", kOp);
  detail::require_numel(kOp, "x", stream, x, x.numel());
  detail::require_float(kOp, "x", x);
  detail::require_numel(kOp, "mask", stream, mask, x.numel());
  detail::require_dtype(kOp, "mask", mask, DType::kU8);
  const int64_t kept = kept_of(x.numel(), keep);
  // A pass for each byte of the keys, one for those that are equal to the last, and one to write.
  constexpr double kPasses = sizeof(uint32_t) + 2;
  stream.report(
      kOp, {.flops = kPasses * static_cast<double>(x.numel()),
            .bytes = kPasses * static_cast<double>(x.bytes()) + static_cast<double>(mask.bytes())});
  if (x.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::largest_mask_cpu(x, kept, mask); },
      [&](Cuda) { detail::largest_mask_cuda(stream, x, kept, mask); });
}

}  // namespace ds::kernels
