// The front of rotations, see rope.h: what their operand must be, and what they cost.
#include "kernels/rotary/rope.h"

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/front/argument.h"
#include "kernels/rotary/rope_cpu.h"
#include "kernels/rotary/rope_cuda.h"

namespace ds::kernels {

void rope(Stream& stream, const AttentionShape& shape, const RotaryTable& table,
          const RowPositions& positions, Rotation rotation, Tensor& qkv) {
  const auto pairs = narrow<int64_t>(table.frequencies.size());
  DS_CHECK(pairs > 0 && 2 * pairs <= shape.head_dim,
           "rope: {} frequencies for heads of {} elements", pairs, shape.head_dim);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel("rope", "qkv", stream, qkv, rows * shape.packed());
  detail::require_float("rope", "qkv", qkv);
  if (positions.rows.defined()) {
    detail::require_like("rope", "positions", stream, positions.rows, rows, DType::kI32);
  }
  const auto turned = static_cast<double>(rows * (shape.heads + shape.kv_heads) * 2 * pairs);
  stream.report("rope", {.flops = 3 * turned,
                         .bytes = 2 * turned * static_cast<double>(size_of(qkv.dtype()))});
  on_device(
      stream, [&](Cpu) { detail::rope_cpu(stream, shape, table, positions, rotation, qkv); },
      [&](Cuda) { detail::rope_cuda(stream, shape, table, positions, rotation, qkv); });
}

}  // namespace ds::kernels
