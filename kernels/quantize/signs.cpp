// 1-bit compression of tensors; see signs.h.
#include "kernels/quantize/signs.h"

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/front/argument.h"
#include "kernels/quantize/signs_cpu.h"
#include "kernels/quantize/signs_cuda.h"
#include "kernels/reduce/reduce.h"

namespace ds::kernels {
namespace {

void require_signs(std::string_view op, const Stream& stream, const Tensor& signs,
                   const Tensor& scale, int64_t numel) {
  detail::require_numel(op, "signs", stream, signs, narrow<int64_t>(sign_bytes(to_size(numel))));
  detail::require_dtype(op, "signs", signs, DType::kU8);
  detail::require_numel(op, "scale", stream, scale, 1);
  detail::require_dtype(op, "scale", scale, DType::kF32);
}

// error += values, and squares are those of what that makes; in one pass over memory where the host
// computes.
void add_and_square(Stream& stream, const CompressSignsArgs& args, const Tensor& squares) {
  Tensor error = args.error;
  if (args.values.dtype() != DType::kF32 || stream.stands_for().kind != Device::Kind::kCpu) {
    accumulate(stream, args.values, error);
    return sum_of_squares_into(stream, error, Write::kOverwrite, squares);
  }
  stream.report("add_and_square", {.flops = 3 * static_cast<double>(error.numel()),
                                   .bytes = 3 * static_cast<double>(error.bytes())});
  if (stream.device().is_meta()) return;
  const DeviceAccess access(stream.gate());
  detail::add_and_square(stream, args.values, error, squares);
}

}  // namespace

void compress_signs(Stream& stream, const CompressSignsArgs& args) {
  constexpr std::string_view kOp = "compress_signs";
  DS_CHECK(args.error.defined(), "{}: the error is undefined", kOp);
  const int64_t numel = args.error.numel();
  detail::require_numel(kOp, "error", stream, args.error, numel);
  detail::require_dtype(kOp, "error", args.error, DType::kF32);
  require_signs(kOp, stream, args.signs, args.scale, numel);
  const Tensor squares = Tensor::empty({1}, DType::kF64, stream, MemoryTag::kScratch);
  if (args.values.defined()) {
    detail::require_numel(kOp, "values", stream, args.values, numel);
    detail::require_float(kOp, "values", args.values);
    add_and_square(stream, args, squares);
  } else {
    sum_of_squares_into(stream, args.error, Write::kOverwrite, squares);
  }
  stream.report(kOp, {.flops = 2 * static_cast<double>(numel),
                      .bytes = 2 * static_cast<double>(args.error.bytes()) +
                               static_cast<double>(args.signs.bytes())});
  on_device(
      stream, [&](Cpu) { detail::compress_signs_cpu(stream, squares, args); },
      [&](Cuda) { detail::compress_signs_cuda(stream, squares, args); });
}

void expand_signs(Stream& stream, const Tensor& signs, const Tensor& scale, Tensor& y) {
  constexpr std::string_view kOp = "expand_signs";
  DS_CHECK(y.defined(), "{}: y is undefined", kOp);
  detail::require_numel(kOp, "y", stream, y, y.numel());
  detail::require_float(kOp, "y", y);
  require_signs(kOp, stream, signs, scale, y.numel());
  stream.report(kOp, {.flops = static_cast<double>(y.numel()),
                      .bytes = static_cast<double>(y.bytes() + signs.bytes())});
  on_device(
      stream, [&](Cpu) { detail::expand_signs_cpu(stream, signs, scale, y); },
      [&](Cuda) { detail::expand_signs_cuda(stream, signs, scale, y); });
}

void add_signs(Stream& stream, const Tensor& signs, const Tensor& scale, Tensor& y) {
  constexpr std::string_view kOp = "add_signs";
  DS_CHECK(y.defined(), "{}: y is undefined", kOp);
  detail::require_numel(kOp, "y", stream, y, y.numel());
  detail::require_dtype(kOp, "y", y, DType::kF32);
  require_signs(kOp, stream, signs, scale, y.numel());
  stream.report(kOp, {.flops = static_cast<double>(y.numel()),
                      .bytes = static_cast<double>(2 * y.bytes() + signs.bytes())});
  on_device(
      stream, [&](Cpu) { detail::add_signs_cpu(stream, signs, scale, y); },
      [&](Cuda) { detail::add_signs_cuda(stream, signs, scale, y); });
}

}  // namespace ds::kernels
