// Frozen weights in blocks; see block_codes.h.
#include "kernels/quantize/block_codes.h"

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "kernels/front/argument.h"
#include "kernels/quantize/block_codes_cpu.h"
#include "kernels/quantize/cuda/block_codes_cuda.h"

namespace ds::kernels {
namespace {

// Checks both operands, and says where codes and scales lie.
PackedBlocks checked(std::string_view op, const Stream& stream, const Tensor& weights,
                     const BlockCode& how, const Tensor& packed) {
  how.check();
  DS_CHECK(weights.defined(), "{}: weights is undefined", op);
  const int64_t numel = weights.numel();
  detail::require_numel(op, "weights", stream, weights, numel);
  detail::require_float(op, "weights", weights);
  DS_CHECK(numel % how.block == 0, "{}: weights has {} elements, expected blocks of {}", op, numel,
           how.block);
  detail::require_like(op, "packed", stream, packed, how.bytes(numel), DType::kU8);
  auto* const codes = static_cast<uint8_t*>(packed.address());
  return {.codes = codes,
          .scales = codes == nullptr ? nullptr : codes + how.code_bytes(numel),
          .blocks = numel / how.block,
          .block = how.block,
          .table = how.table,
          .scale = how.scale};
}

}  // namespace

void BlockCode::check() const {
  if (block < 2 || block % 2 != 0) {
    throw ConfigError(
        fmt::format("quantize: a block has {} weights, expected an even number of them", block));
  }
}

void pack_blocks(Stream& stream, const Tensor& weights, const BlockCode& how, const Tensor& packed,
                 const Tensor& unfit) {
  constexpr std::string_view kOp = "pack_blocks";
  const PackedBlocks to = checked(kOp, stream, weights, how, packed);
  detail::require_like(kOp, "unfit", stream, unfit, 1, DType::kI32);
  stream.report(kOp, {.flops = 6 * static_cast<double>(weights.numel()),
                      .bytes = static_cast<double>(2 * weights.bytes() + packed.bytes())});
  if (weights.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::pack_blocks_cpu(stream, weights, to, unfit); },
      [&](Cuda) { detail::pack_blocks_cuda(stream, weights, to, unfit); });
}

void unpack_blocks(Stream& stream, const Tensor& packed, const BlockCode& how, Tensor& weights) {
  constexpr std::string_view kOp = "unpack_blocks";
  const PackedBlocks from = checked(kOp, stream, weights, how, packed);
  stream.report(kOp, {.flops = static_cast<double>(weights.numel()),
                      .bytes = static_cast<double>(packed.bytes() + weights.bytes())});
  if (weights.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::unpack_blocks_cpu(stream, from, weights); },
      [&](Cuda) { detail::unpack_blocks_cuda(stream, from, weights); });
}

}  // namespace ds::kernels
