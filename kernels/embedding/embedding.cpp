// The front of embeddings, see embedding.h: what their operands must be, and what they cost; and
// the order of tokens, which the host makes for every device.
#include "kernels/embedding/embedding.h"

#include <algorithm>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/embedding/embedding_cpu.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

struct TableRows {
  int64_t rows, columns;
};

TableRows check(std::string_view op, const Stream& stream, const Tensor& table, const Tensor& y) {
  DS_CHECK(table.defined() && table.shape().rank() == 2, "{}: the table is not a matrix", op);
  const int64_t columns = table.shape()[1];
  const int64_t rows = detail::rows_of(op, "y", y, columns);
  detail::require_numel(op, "table", stream, table, table.numel());
  detail::require_float(op, "table", table);
  detail::require_numel(op, "y", stream, y, rows * columns);
  detail::require_float(op, "y", y);
  return {rows, columns};
}

void check(std::string_view op, const Tensor& table, const TablePart& part) {
  DS_CHECK(part.first >= 0 && part.first + table.shape()[0] <= part.vocabulary_of(table),
           "{}: rows [{}, {}) of a vocabulary of {}", op, part.first, part.first + table.shape()[0],
           part.vocabulary_of(table));
}

}  // namespace

void embedding_forward(Stream& stream, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, int64_t length, int64_t first_position, Tensor& y,
                       const TablePart& part) {
  constexpr std::string_view kOp = "embedding_forward";
  const auto [rows, columns] = check(kOp, stream, table, y);
  check(kOp, table, part);
  detail::require_numel(kOp, "tokens", stream, tokens, rows);
  detail::require_dtype(kOp, "tokens", tokens, DType::kI32);
  detail::require_dtype(kOp, "table", table, y.dtype());
  if (positions.defined()) {
    const int64_t known = detail::rows_of(kOp, "positions", positions, columns);
    detail::require_dtype(kOp, "positions", positions, y.dtype());
    DS_CHECK(length > 0 && first_position >= 0 && first_position + std::min(length, rows) <= known,
             "{}: positions [{}, {}) of {}", kOp, first_position,
             first_position + std::min(length, rows), known);
  }
  stream.report(kOp, {.flops = positions.defined() ? static_cast<double>(y.numel()) : 0.0,
                      .bytes = (positions.defined() ? 3.0 : 2.0) * static_cast<double>(y.bytes())});
  on_device(
      stream,
      [&](Cpu) {
        detail::embedding_forward_cpu(stream, tokens, table, positions, length, first_position, y,
                                      part);
      },
      [&](Cuda) {
        detail::embedding_forward_cuda(stream, tokens, table, positions, length, first_position, y,
                                       part);
      });
}

void sort_tokens(std::span<const int32_t> tokens, std::span<int32_t> order) {
  const size_t rows = tokens.size();
  DS_CHECK(order.size() == 2 * rows, "sort_tokens: room for {} numbers, expected {}", order.size(),
           2 * rows);
  const auto sorted = order.first(rows);
  for (size_t i = 0; i < rows; ++i) sorted[i] = static_cast<int32_t>(i);
  // This sorts by token and row: stable, and without the memory that std::stable_sort asks for.
  std::ranges::sort(sorted, [&](int32_t a, int32_t b) {
    return tokens[to_size(a)] != tokens[to_size(b)] ? tokens[to_size(a)] < tokens[to_size(b)]
                                                    : a < b;
  });
  for (size_t i = 0; i < rows; ++i) order[rows + i] = tokens[to_size(sorted[i])];
}

Tensor token_order(Stream& stream, const Tensor& tokens) {
  const int64_t rows = tokens.numel();
  detail::require_dtype("token_order", "tokens", tokens, DType::kI32);
  Tensor order = Tensor::empty({2, rows}, DType::kI32, stream);
  std::vector<int32_t> on_host(to_size(rows)), sorted(to_size(2 * rows));
  if (!stream.device().is_meta()) {
    stream.copy(tokens.address(), on_host.data(), tokens.bytes());
    stream.synchronize();
    sort_tokens(on_host, sorted);
  }
  stream.copy(sorted.data(), order.address(), order.bytes());
  stream.synchronize();  // `sorted` goes
  return order;
}

void embedding_backward(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                        Tensor& dtable, const TablePart& part) {
  constexpr std::string_view kOp = "embedding_backward";
  const auto [rows, columns] = check(kOp, stream, dtable, dy);
  check(kOp, dtable, part);
  detail::require_numel(kOp, "order", stream, order, 2 * rows);
  detail::require_dtype(kOp, "order", order, DType::kI32);
  stream.report(kOp, {.flops = static_cast<double>(dy.numel()),
                      .bytes = static_cast<double>(dy.bytes()) +
                               (write == Write::kOverwrite ? static_cast<double>(dtable.bytes())
                                                           : 2 * static_cast<double>(dy.bytes()))});
  on_device(
      stream, [&](Cpu) { detail::embedding_backward_cpu(stream, order, dy, write, dtable, part); },
      [&](Cuda) { detail::embedding_backward_cuda(stream, order, dy, write, dtable, part); });
}

void position_backward(Stream& stream, const Tensor& dy, int64_t length, Write write,
                       Tensor& dpositions) {
  constexpr std::string_view kOp = "position_backward";
  check(kOp, stream, dpositions, dy);
  DS_CHECK(length > 0 && length <= dpositions.shape()[0], "{}: length {} of {} positions", kOp,
           length, dpositions.shape()[0]);
  stream.report(kOp, {.flops = static_cast<double>(dy.numel()),
                      .bytes = static_cast<double>(dy.bytes() + dpositions.bytes())});
  on_device(
      stream, [&](Cpu) { detail::position_backward_cpu(stream, dy, length, write, dpositions); },
      [&](Cuda) { detail::position_backward_cuda(stream, dy, length, write, dpositions); });
}

void distinct_tokens(Stream& stream, const Tensor& order, Tensor& rows) {
  constexpr std::string_view kOp = "distinct_tokens";
  detail::require_numel(kOp, "order", stream, order, order.numel() / 2 * 2);
  detail::require_dtype(kOp, "order", order, DType::kI32);
  detail::require_numel(kOp, "rows", stream, rows, rows.numel());
  detail::require_dtype(kOp, "rows", rows, DType::kI32);
  stream.report(kOp, {.flops = 0, .bytes = static_cast<double>(order.bytes() / 2 + rows.bytes())});
  on_device(
      stream, [&](Cpu) { detail::distinct_tokens_cpu(order, rows); },
      [&](Cuda) { detail::distinct_tokens_cuda(stream, order, rows); });
}

void take_rows(Stream& stream, const Tensor& table, const Tensor& rows, Tensor& values) {
  constexpr std::string_view kOp = "take_rows";
  const auto [count, columns] = check(kOp, stream, table, values);
  detail::require_numel(kOp, "rows", stream, rows, count);
  detail::require_dtype(kOp, "rows", rows, DType::kI32);
  stream.report(kOp, {.flops = 0,
                      .bytes = static_cast<double>(values.bytes() + to_size(values.numel()) *
                                                                        size_of(table.dtype()))});
  on_device(
      stream, [&](Cpu) { detail::take_rows_cpu(stream, table, rows, values); },
      [&](Cuda) { detail::take_rows_cuda(stream, table, rows, values); });
}

void sum_rows(Stream& stream, const Tensor& rows, const Tensor& values, int64_t parts, Write write,
              Tensor& table) {
  constexpr std::string_view kOp = "sum_rows";
  const auto [count, columns] = check(kOp, stream, table, values);
  detail::require_numel(kOp, "rows", stream, rows, count);
  detail::require_dtype(kOp, "rows", rows, DType::kI32);
  DS_CHECK(parts > 0 && count % parts == 0, "{}: {} rows of {} parts", kOp, count, parts);
  const double sums =
      static_cast<double>(values.numel()) * static_cast<double>(size_of(table.dtype()));
  stream.report(kOp, {.flops = static_cast<double>(values.numel()),
                      .bytes = static_cast<double>(values.bytes()) +
                               (write == Write::kOverwrite ? sums : 2 * sums)});
  on_device(
      stream, [&](Cpu) { detail::sum_rows_cpu(stream, rows, values, parts, write, table); },
      [&](Cuda) { detail::sum_rows_cuda(stream, rows, values, parts, write, table); });
}

}  // namespace ds::kernels
