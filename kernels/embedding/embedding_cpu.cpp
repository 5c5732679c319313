// Token and position embedding on the CPU. Gradients of equal tokens are added up in fp32, in row
// order, whatever the number of threads: each thread owns a range of columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/embedding_cpu.cpp"
#include "kernels/embedding/embedding_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/elementwise.h"

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
                int64_t first_position, Tensor& y, int64_t first_token, int64_t begin,
                int64_t end) {
  on_float(y.dtype(), [&]<class T>() {
    const Lanes d;
    const int64_t columns = table.shape()[-1];
    const int64_t known = table.shape()[0];
    const T* table_rows = table.data<T>();
    const T* position_rows = positions.defined() ? positions.data<T>() : nullptr;
    T* y_rows = y.data<T>();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = tokens[row] - first_token;
      const bool is_here = token >= 0 && token < known;
      const T* from = table_rows + (is_here ? token : 0) * columns;
      const T* position = position_rows == nullptr
                              ? nullptr
                              : position_rows + (first_position + row % length) * columns;
      T* to = y_rows + row * columns;
      if (position == nullptr || !is_here) {
        const T* const only = is_here ? from : position;
        only == nullptr ? std::fill_n(to, columns, static_cast<T>(0.0F))
                        : std::copy_n(only, columns, to);
        continue;
      }
      for (int64_t c = 0; c < columns; c += lane_count()) {
        const int64_t lanes = at_most_lanes(columns - c);
        put(hn::Add(get(d, from + c, lanes), get(d, position + c, lanes)), d, to + c, lanes);
      }
    }
  });
}

// order: row numbers, those of one target consecutive; targets[i] is the target of order[i].
void scatter_columns(const Tensor& dy, const int32_t* order, const int32_t* targets, int64_t rows,
                     Write write, Tensor& y, int64_t first_target, int64_t begin, int64_t end) {
  on_float(dy.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      const int64_t columns = y.shape()[-1];
      for (int64_t i = 0; i < rows;) {
        int64_t next = i + 1;
        while (next < rows && targets[next] == targets[i]) ++next;
        const int64_t target = targets[i] - first_target;
        if (target >= 0 && target < y.shape()[0]) {
          add_rows(
              dy.data<TX>(), [rows = order + i](int64_t k) { return int64_t{rows[k]}; }, next - i,
              columns, write, y.data<TY>() + target * columns, begin, end);
        }
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

// Rows of a table, or zeros, to places [begin, end) of y.
void take_places(const Tensor& table, const int32_t* rows, Tensor& y, int64_t begin, int64_t end) {
  on_float(table.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      const Lanes d;
      const int64_t columns = table.shape()[1];
      for (int64_t k = begin; k < end; ++k) {
        const TX* from = rows[k] == kNoRow ? nullptr : table.data<TX>() + rows[k] * columns;
        TY* to = y.data<TY>() + k * columns;
        for (int64_t c = 0; c < columns; c += lane_count()) {
          const int64_t lanes = at_most_lanes(columns - c);
          put(from == nullptr ? hn::Zero(d) : get(d, from + c, lanes), d, to + c, lanes);
        }
      }
    });
  });
}

// y = (or +=) the sum of values' rows `places`, one after the other.
void sum_places(const Tensor& values, std::span<const int64_t> places, Write write, Tensor& table,
                int64_t row) {
  on_float(values.dtype(), [&]<class TX>() {
    on_float(table.dtype(), [&]<class TY>() {
      const Lanes d;
      const int64_t columns = table.shape()[1];
      const TX* from = values.data<TX>();
      TY* y = table.data<TY>() + row * columns;
      for (int64_t c = 0; c < columns; c += lane_count()) {
        const int64_t lanes = at_most_lanes(columns - c);
        auto total = get(d, from + places[0] * columns + c, lanes);
        for (const int64_t place : places.subspan(1)) {
          total = hn::Add(total, get(d, from + place * columns + c, lanes));
        }
        if constexpr (sizeof(TY) < sizeof(float)) {
          HWY_ALIGN TX rounded[hn::MaxLanes(Lanes())];
          store(total, d, rounded);
          total = load(d, rounded);
        }
        if (write == Write::kAccumulate) total = hn::Add(get(d, y + c, lanes), total);
        put(total, d, y + c, lanes);
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
DS_SIMD_EXPORT(take_places);
DS_SIMD_EXPORT(sum_places);

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

void check_rows(std::string_view op, std::span<const int32_t> rows, int64_t of_table) {
  for (const int32_t row : rows) {
    if (row != kNoRow && (row < 0 || row >= of_table)) {
      throw DataError(fmt::format("{}: row {}, expected 0 <= row < {}", op, row, of_table));
    }
  }
}

std::span<const int32_t> ids_of(const Tensor& tensor) {
  return {tensor.data<int32_t>(), to_size(tensor.numel())};
}

// Returns where a part has a row, or -1.
int64_t place_of(std::span<const int32_t> part, int32_t row) {
  const auto found = std::ranges::lower_bound(part, row);
  return found == part.end() || *found != row ? -1 : found - part.begin();
}

// The places of all parts that have the row at `place`, in order; none where a part before has it.
void places_of(std::span<const int32_t> rows, int64_t parts, int64_t place,
               std::vector<int64_t>& places) {
  const int64_t count = narrow<int64_t>(rows.size()) / parts;
  const int64_t mine = place / count;
  places.clear();
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t at =
        place_of(rows.subspan(to_size(part * count), to_size(count)), rows[to_size(place)]);
    if (at < 0) continue;
    if (part < mine) return;
    places.push_back(part * count + at);
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
                           Tensor& y, const TablePart& part) {
  const int64_t rows = tokens.numel();
  const auto* ids = tokens.data<int32_t>();
  check_tokens("embedding_forward", ids, rows, part.vocabulary_of(table));
  stream.pool().parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    DS_SIMD(embed_rows)(ids, table, positions, length, first_position, y, part.first, begin, end);
  });
}

void embedding_backward_cpu(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                            Tensor& dtable, const TablePart& part) {
  constexpr std::string_view kOp = "embedding_backward";
  const int64_t rows = order.numel() / 2;
  const auto* sorted = order.data<int32_t>();
  check_order(kOp, sorted, rows);
  check_tokens(kOp, sorted + rows, rows, part.vocabulary_of(dtable));
  if (write == Write::kOverwrite) fill(stream, dtable, 0.0F);
  stream.pool().parallel_for(dtable.shape()[1], kColumnGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(scatter_columns)
    (dy, sorted, sorted + rows, rows, write, dtable, part.first, begin, end);
  });
}

void position_backward_cpu(Stream& stream, const Tensor& dy, int64_t length, Write write,
                           Tensor& dpositions) {
  if (write == Write::kOverwrite) fill(stream, dpositions, 0.0F);
  stream.pool().parallel_for(dpositions.shape()[1], kColumnGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(fold_columns)(dy, length, write, dpositions, begin, end);
  });
}

void distinct_tokens_cpu(const Tensor& order, Tensor& rows) {
  const auto tokens = ids_of(order).subspan(to_size(order.numel() / 2));
  auto* const into = rows.data<int32_t>();
  int64_t count = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i] == tokens[i - 1]) continue;
    if (count == rows.numel()) {
      throw DataError(
          fmt::format("distinct_tokens: more than {} tokens that differ", rows.numel()));
    }
    into[count++] = tokens[i];
  }
  std::fill(into + count, into + rows.numel(), kNoRow);
}

void take_rows_cpu(Stream& stream, const Tensor& table, const Tensor& rows, Tensor& values) {
  check_rows("take_rows", ids_of(rows), table.shape()[0]);
  const auto* const from = rows.data<int32_t>();
  stream.pool().parallel_for(rows.numel(), 4, [&](int64_t begin, int64_t end) {
    DS_SIMD(take_places)(table, from, values, begin, end);
  });
}

void sum_rows_cpu(Stream& stream, const Tensor& rows, const Tensor& values, int64_t parts,
                  Write write, Tensor& table) {
  const auto all = ids_of(rows);
  check_rows("sum_rows", all, table.shape()[0]);
  stream.pool().parallel_for(rows.numel(), 4, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> places;
    for (int64_t k = begin; k < end; ++k) {
      const int32_t row = all[to_size(k)];
      if (row == kNoRow) continue;
      places_of(all, parts, k, places);
      if (!places.empty()) DS_SIMD(sum_places)(values, places, write, table, row);
    }
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
