// The rows of experts on the CPU: a row at a time, rows shared out among the stream's threads.
// Products are rounded before they are added, so that a sum has the same bits on every machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/moe/expert_rows_cpu.cpp"
#include "kernels/moe/expert_rows_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void scale_row(const T* from, float weight, int64_t columns, T* to) {
  const Lanes d;
  const auto factor = hn::Set(d, weight);
  for (int64_t c = 0; c < columns; c += lane_count()) {
    const int64_t lanes = at_most_lanes(columns - c);
    put(hn::Mul(factor, get(d, from + c, lanes)), d, to + c, lanes);
  }
}

constexpr int kSide = 4;  // vectors side by side: sums that do not wait for each other

// y = the sum of the rows at `place` times their weights, of kSide whole vectors; place < 0: none.
template <class T>
HWY_INLINE void add_vectors(const T* rows, const int32_t* place, const float* weights,
                            const RowsOfTokens& shape, T* y) {
  const Lanes d;
  F32Vector total[kSide];
#pragma GCC unroll 4
  for (int v = 0; v < kSide; ++v) total[v] = hn::Zero(d);
  for (int64_t j = 0; j < shape.choices; ++j) {
    if (place[j] < 0) continue;
    const T* const row = rows + place[j] * shape.columns;
    const auto weight = hn::Set(d, weights == nullptr ? 1.0F : weights[j]);
#pragma GCC unroll 4
    for (int v = 0; v < kSide; ++v) {
      total[v] = hn::Add(total[v], hn::Mul(weight, load(d, row + v * lane_count())));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kSide; ++v) store(total[v], d, y + v * lane_count());
}

template <class T>
void add_places(const T* rows, const int32_t* place, const float* weights,
                const RowsOfTokens& shape, T* y) {
  const Lanes d;
  int64_t c = 0;
  for (; c + kSide * lane_count() <= shape.columns; c += kSide * lane_count()) {
    add_vectors(rows + c, place, weights, shape, y + c);
  }
  for (; c < shape.columns; c += lane_count()) {
    const int64_t lanes = at_most_lanes(shape.columns - c);
    auto total = hn::Zero(d);
    for (int64_t j = 0; j < shape.choices; ++j) {
      if (place[j] < 0) continue;
      const auto row = get(d, rows + place[j] * shape.columns + c, lanes);
      const auto weight = hn::Set(d, weights == nullptr ? 1.0F : weights[j]);
      total = hn::Add(total, hn::Mul(weight, row));
    }
    put(total, d, y + c, lanes);
  }
}

template <class T>
float dot(const T* a, const T* b, int64_t columns) {
  const Lanes d;
  F32Vector sum[kSide];
  for (F32Vector& one : sum) one = hn::Zero(d);
  int64_t c = 0;
  for (; c + kSide * lane_count() <= columns; c += kSide * lane_count()) {
    for (int v = 0; v < kSide; ++v) {
      const int64_t at = c + v * lane_count();
      sum[v] = hn::MulAdd(load(d, a + at), load(d, b + at), sum[v]);
    }
  }
  for (; c < columns; c += lane_count()) {
    const int64_t lanes = at_most_lanes(columns - c);
    sum[0] = hn::MulAdd(get(d, a + c, lanes), get(d, b + c, lanes), sum[0]);
  }
  return sum_lanes(d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

}  // namespace

// Rows [begin, end) of the way there.
void gather_rows(const RowsThere& args, int64_t begin, int64_t end) {
  on_float(args.x.dtype(), [&]<class T>() {
    const int64_t columns = args.shape.columns;
    const auto* const order = args.order.data<int32_t>();
    const float* const weights = args.weights.defined() ? args.weights.data<float>() : nullptr;
    for (int64_t i = begin; i < end; ++i) {
      T* const to = args.rows.data<T>() + i * columns;
      if (order[i] < 0) {
        std::fill_n(to, columns, static_cast<T>(0.0F));
        continue;
      }
      const T* const from = args.x.data<T>() + order[i] / args.shape.choices * columns;
      if (weights == nullptr) {
        std::memcpy(to, from, to_size(columns) * sizeof(T));
      } else {
        scale_row(from, weights[order[i]], columns, to);
      }
    }
  });
}

// Tokens [begin, end) of the way back.
void return_rows(const RowsBack& args, int64_t begin, int64_t end) {
  on_float(args.rows.dtype(), [&]<class T>() {
    const int64_t choices = args.shape.choices;
    const float* const weights = args.weights.defined() ? args.weights.data<float>() : nullptr;
    for (int64_t n = begin; n < end; ++n) {
      add_places(args.rows.data<T>(), args.place.data<int32_t>() + n * choices,
                 weights == nullptr ? nullptr : weights + n * choices, args.shape,
                 args.y.data<T>() + n * args.shape.columns);
    }
  });
}

void dot_rows(const RowsBack& args, int64_t begin, int64_t end) {
  on_float(args.rows.dtype(), [&]<class T>() {
    const int64_t columns = args.shape.columns, choices = args.shape.choices;
    for (int64_t i = begin * choices; i < end * choices; ++i) {
      const int32_t place = args.place.data<int32_t>()[i];
      args.weights.data<float>()[i] = place < 0
                                          ? 0.0F
                                          : dot(args.y.data<T>() + i / choices * columns,
                                                args.rows.data<T>() + place * columns, columns);
    }
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels::detail {
namespace {

DS_SIMD_EXPORT(gather_rows);
DS_SIMD_EXPORT(return_rows);
DS_SIMD_EXPORT(dot_rows);

constexpr int64_t kGrain = 4;  // rows

void require_below(std::string_view op, const Tensor& numbers, int64_t most,
                   std::string_view what) {
  const auto* const all = numbers.data<int32_t>();
  const auto* const end = all + numbers.numel();
  const auto* const bad =
      std::find_if(all, end, [&](int32_t number) { return number < -1 || number >= most; });
  DS_CHECK(bad == end, "{}: entry {} is {} {}, expected -1 to {}", op, bad - all, what, *bad,
           most - 1);
}

}  // namespace

void gather_expert_rows_cpu(Stream& stream, const RowsThere& args) {
  const int64_t tokens = args.x.numel() / args.shape.columns;
  require_below("gather_expert_rows", args.order, tokens * args.shape.choices, "choice");
  stream.pool().parallel_for(args.order.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(gather_rows)(args, begin, end);
  });
}

void return_expert_rows_cpu(Stream& stream, const RowsBack& args) {
  require_below("return_expert_rows", args.place, args.rows.numel() / args.shape.columns, "place");
  const int64_t tokens = args.y.numel() / args.shape.columns;
  stream.pool().parallel_for(tokens, kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(return_rows)(args, begin, end);
  });
}

void expert_row_dots_cpu(Stream& stream, const RowsBack& args) {
  require_below("expert_row_dots", args.place, args.rows.numel() / args.shape.columns, "place");
  const int64_t tokens = args.y.numel() / args.shape.columns;
  stream.pool().parallel_for(tokens, kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(dot_rows)(args, begin, end);
  });
}

}  // namespace ds::kernels::detail
#endif  // HWY_ONCE
