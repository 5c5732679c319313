// The front of rotations, see rope.h: what their operand must be, and what they cost.
#include "kernels/rope.h"

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/cpu/rope.h"
#include "kernels/cuda/rope.h"

namespace ds::kernels {

void rope(Stream& stream, const AttentionShape& shape, float theta, int64_t first_position,
          Rotation rotation, Tensor& qkv) {
  DS_CHECK(shape.head_dim > 0 && shape.head_dim % 2 == 0, "rope: head_dim {} is not even",
           shape.head_dim);
  DS_CHECK(theta > 0, "rope: theta is {}, expected > 0", theta);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel("rope", "qkv", stream, qkv, rows * shape.packed());
  detail::require_float("rope", "qkv", qkv);
  const int64_t heads = shape.heads + shape.kv_heads;
  stream.report("rope", {.flops = 3.0 * static_cast<double>(rows * heads * shape.head_dim),
                         .bytes = 2.0 * static_cast<double>(rows * heads * shape.head_dim) *
                                  static_cast<double>(size_of(qkv.dtype()))});
  on_device(
      stream, [&](Cpu) { detail::rope_cpu(stream, shape, theta, first_position, rotation, qkv); },
      [&](Cuda) { detail::rope_cuda(stream, shape, theta, first_position, rotation, qkv); });
}

}  // namespace ds::kernels
