// AttentionLayout says where the heads of attention's operands lie (pure): dimensions and strides,
// for libraries that know nothing of a packed projection. Internal to kernels/.
#pragma once

#include <array>

#include "kernels/attention/attention.h"

namespace ds::kernels::detail {

// Element {b, h, t, d} lies `offset` plus the sum of index * stride elements behind the beginning
// of the operand that it is of.
struct HeadTensor {
  std::array<int64_t, 4> dims;  // batch, heads, length, head_dim
  std::array<int64_t, 4> strides;
  int64_t offset = 0;
};

struct AttentionLayout {
  HeadTensor queries, keys, values;  // of the packed projection, and of its gradient
  HeadTensor outputs;                // y, and its gradient
  HeadTensor log_sum_exp;            // one element per query
};

constexpr AttentionLayout layout_of(const AttentionShape& s) {
  const int64_t row = s.packed();
  const auto packed = [&](int64_t heads, int64_t first_head) {
    return HeadTensor{.dims = {s.batch, heads, s.length, s.head_dim},
                      .strides = {s.length * row, s.head_dim, row, 1},
                      .offset = first_head * s.head_dim};
  };
  const int64_t width = s.heads * s.head_dim;
  return {.queries = packed(s.heads, 0),
          .keys = packed(s.kv_heads, s.heads),
          .values = packed(s.kv_heads, s.heads + s.kv_heads),
          .outputs = {.dims = {s.batch, s.heads, s.length, s.head_dim},
                      .strides = {s.length * width, s.head_dim, width, 1}},
          .log_sum_exp = {.dims = {s.batch, s.heads, s.length, 1},
                          .strides = {s.heads * s.length, s.length, 1, 1}}};
}

}  // namespace ds::kernels::detail
