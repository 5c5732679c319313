// Token and position embedding on the CPU. Gradients of equal tokens are added up in fp32, in row
// order, whatever the number of threads: each thread owns a range of columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "kernels/cpu/embedding.h"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/dispatch.h"
#include "core/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// y[c] = (or +=) the sum of dy's rows row_at(0) .. row_at(count - 1), for columns [begin, end).
template <class TX, class TY, class RowAt>
void add_rows(const TX* dy, const RowAt& row_at, int64_t count, int64_t columns, Write write, TY* y,
              int64_t begin, int64_t end) {
  const Lanes d;
  for (int64_t c = begin; c < end; c += lane_count()) {
    const int64_t lanes = at_most_lanes(end - c);
    auto total = write == Write::kAccumulate ? get(d, y + c, lanes) : hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) {
      total = hn::Add(total, get(d, dy + row_at(i) * columns + c, lanes));
    }
    put(total, d, y + c, lanes);
  }
}

}  // namespace

void embed_rows(const int32_t* tokens, const Tensor& table, const Tensor& positions, int64_t length,
                int64_t first_position, Tensor& y, int64_t begin, int64_t end) {
  on_float(y.dtype(), [&]<class T>() {
    const Lanes d;
    const int64_t columns = table.shape()[-1];
    const T* table_rows = table.data<T>();
    const T* position_rows = positions.defined() ? positions.data<T>() : nullptr;
    T* y_rows = y.data<T>();
    for (int64_t row = begin; row < end; ++row) {
      const T* from = table_rows + tokens[row] * columns;
      T* to = y_rows + row * columns;
      if (position_rows == nullptr) {
        std::copy(from, from + columns, to);
        continue;
      }
      const T* position = position_rows + (first_position + row % length) * columns;
      for (int64_t c = 0; c < columns; c += lane_count()) {
        const int64_t lanes = at_most_lanes(columns - c);
        put(hn::Add(get(d, from + c, lanes), get(d, position + c, lanes)), d, to + c, lanes);
      }
    }
  });
}

// order: row numbers, those of one target consecutive; targets[i] is the target of order[i].
void scatter_columns(const Tensor& dy, const int32_t* order, const int32_t* targets, int64_t rows,
                     Write write, Tensor& y, int64_t begin, int64_t end) {
  on_float(dy.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      const int64_t columns = y.shape()[-1];
      for (int64_t i = 0; i < rows;) {
        int64_t next = i + 1;
        while (next < rows && targets[next] == targets[i]) ++next;
        add_rows(
            dy.data<TX>(), [rows = order + i](int64_t k) { return int64_t{rows[k]}; }, next - i,
            columns, write, y.data<TY>() + targets[i] * columns, begin, end);
        i = next;
      }
    });
  });
}

// Row t of y gets rows t, t + length, t + 2 length, ... of dy.
void fold_columns(const Tensor& dy, int64_t length, Write write, Tensor& y, int64_t begin,
                  int64_t end) {
  on_float(dy.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      const int64_t columns = y.shape()[-1];
      const int64_t rows = dy.numel() / columns;
      for (int64_t t = 0; t < std::min(length, rows); ++t) {
        add_rows(
            dy.data<TX>(), [t, length](int64_t k) { return t + k * length; },
            (rows - t + length - 1) / length, columns, write, y.data<TY>() + t * columns, begin,
            end);
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(embed_rows);
DS_SIMD_EXPORT(scatter_columns);
DS_SIMD_EXPORT(fold_columns);

constexpr int64_t kColumnGrain = 64;

void check_tokens(std::string_view op, const int32_t* tokens, int64_t rows, int64_t vocabulary) {
  for (int64_t row = 0; row < rows; ++row) {
    if (tokens[row] < 0 || tokens[row] >= vocabulary) {
      throw DataError(
          fmt::format("{}: row {} has token {}, expected 0 <= token < {} (the vocabulary)", op, row,
                      tokens[row], vocabulary));
    }
  }
}

void check_order(std::string_view op, const int32_t* order, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    if (order[i] < 0 || order[i] >= rows) {
      throw DataError(fmt::format("{}: place {} of the order is row {}, expected 0 <= row < {}", op,
                                  i, order[i], rows));
    }
  }
}

}  // namespace

namespace detail {

void embedding_forward_cpu(Stream& stream, const Tensor& tokens, const Tensor& table,
                           const Tensor& positions, int64_t length, int64_t first_position,
                           Tensor& y) {
  const int64_t rows = tokens.numel();
  const auto* ids = tokens.data<int32_t>();
  check_tokens("embedding_forward", ids, rows, table.shape()[0]);
  stream.pool().parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    DS_SIMD(embed_rows)(ids, table, positions, length, first_position, y, begin, end);
  });
}

void embedding_backward_cpu(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                            Tensor& dtable) {
  constexpr std::string_view kOp = "embedding_backward";
  const int64_t rows = order.numel() / 2;
  const auto* sorted = order.data<int32_t>();
  check_order(kOp, sorted, rows);
  check_tokens(kOp, sorted + rows, rows, dtable.shape()[0]);
  if (write == Write::kOverwrite) fill(stream, dtable, 0.0F);
  stream.pool().parallel_for(dtable.shape()[1], kColumnGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(scatter_columns)(dy, sorted, sorted + rows, rows, write, dtable, begin, end);
  });
}

void position_backward_cpu(Stream& stream, const Tensor& dy, int64_t length, Write write,
                           Tensor& dpositions) {
  if (write == Write::kOverwrite) fill(stream, dpositions, 0.0F);
  stream.pool().parallel_for(dpositions.shape()[1], kColumnGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(fold_columns)(dy, length, write, dpositions, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
