// The places of one query, for both halves of kernels/attention_sink.
#pragma once

#include "kernels/attention/attention.h"

namespace ds::kernels::detail {

struct SinkQuery {
  int64_t head = 0;
  int64_t row = 0;  // in [batch * T, heads]
};

// `number`: its place in [batch, heads, T].
constexpr SinkQuery sink_query(const AttentionShape& shape, int64_t number) {
  const int64_t item = number / shape.length, head = item % shape.heads;
  const int64_t row = item / shape.heads * shape.length + number % shape.length;
  return {head, row * shape.heads + head};
}

}  // namespace ds::kernels::detail
