// Sinks of attention on the CPU, query by query, shared out among the stream's threads.
#include "kernels/attention/attention_sink_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/dispatch.h"
#include "core/tasks/thread_pool.h"
#include "kernels/attention/attention_sink_operands.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kQueriesOfPart = 64;

// Calls work(head, number, row) for each query: its head, its place in [batch, heads, T], and its
// place in [batch * T, heads].
template <class Work>
void each_query(Stream& stream, const AttentionShape& shape, const Work& work) {
  const int64_t queries = shape.batch * shape.heads * shape.length;
  stream.pool().parallel_for(queries, kQueriesOfPart, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const auto [head, row] = sink_query(shape, number);
      work(head, number, row);
    }
  });
}

// log(e^a + e^b)
float log_of_both(float a, float b) {
  const float most = std::max(a, b);
  if (most == -std::numeric_limits<float>::infinity()) return most;
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

}  // namespace

void add_sinks_cpu(Stream& stream, const AttentionShape& shape, const Tensor& sinks, Tensor& y,
                   Tensor& log_sum_exp) {
  float* const sums = log_sum_exp.data<float>();
  on_float(sinks.dtype(), [&]<class Sink>() {
    on_float(y.dtype(), [&]<class T>() {
      each_query(stream, shape, [&](int64_t head, int64_t number, int64_t row) {
        const float before = sums[number];
        sums[number] = log_of_both(before, static_cast<float>(sinks.data<Sink>()[head]));
        const bool has_keys = before > -std::numeric_limits<float>::infinity();
        const float factor = has_keys ? std::exp(before - sums[number]) : 0.0F;
        T* const out = y.data<T>() + row * shape.head_dim;
        for (int64_t i = 0; i < shape.head_dim; ++i) {
          out[i] = static_cast<T>(static_cast<float>(out[i]) * factor);
        }
      });
    });
  });
}

void sink_terms_cpu(Stream& stream, const AttentionShape& shape, const Tensor& sinks,
                    const Tensor& log_sum_exp, const Tensor& delta, Tensor& terms) {
  on_float(sinks.dtype(), [&]<class Sink>() {
    each_query(stream, shape, [&](int64_t head, int64_t number, int64_t row) {
      const auto sink = static_cast<float>(sinks.data<Sink>()[head]);
      const float sum = log_sum_exp.data<float>()[number];
      const bool has_any = sum > -std::numeric_limits<float>::infinity();
      const float weight = has_any ? std::exp(sink - sum) : 0.0F;
      terms.data<float>()[row] = -weight * delta.data<float>()[number];
    });
  });
}

}  // namespace ds::kernels::detail
