#include "zero/zenflow/columns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/values/index.h"

namespace ds {

int64_t important_columns(int64_t columns, double ratio) {
  const auto count = static_cast<int64_t>(std::floor(static_cast<double>(columns) * ratio));
  return std::clamp<int64_t>(count, 1, columns);
}

std::vector<uint8_t> choose_columns(std::span<const double> squares, int64_t count) {
  std::vector<size_t> order(squares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto before = [&](size_t a, size_t b) {
    return squares[a] != squares[b] ? squares[a] > squares[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
  std::vector<uint8_t> chosen(squares.size(), 0);
  for (const size_t column : std::span(order).first(to_size(count))) chosen[column] = 1;
  return chosen;
}

int64_t most_places(const MatrixPart& part, int64_t chosen) {
  const int64_t columns = part.columns;
  const int64_t head = std::min(part.numel, (columns - part.first % columns) % columns);
  const int64_t rest = part.numel - head;
  return std::min(head, chosen) + rest / columns * chosen + std::min(rest % columns, chosen);
}

void append_places(const MatrixPart& part, std::span<const uint8_t> chosen, int64_t offset,
                   std::vector<int32_t>& places) {
  int64_t column = part.first % part.columns;
  for (int64_t i = 0; i < part.numel; ++i) {
    if (chosen[to_size(column)] != 0) places.push_back(narrow<int32_t>(offset + i));
    if (++column == part.columns) column = 0;
  }
}

GradientSizes sizes_of(std::span<const double> squares, std::span<const uint8_t> chosen,
                       int64_t rows) {
  double important = 0, rest = 0;
  int64_t count = 0;
  for (size_t column = 0; column < squares.size(); ++column) {
    (chosen[column] != 0 ? important : rest) += squares[column];
    count += chosen[column];
  }
  const auto root = [rows](double sum, int64_t columns) {
    if (columns == 0) return 0.0F;
    return static_cast<float>(std::sqrt(sum / static_cast<double>(rows * columns)));
  };
  return {.important = root(important, count),
          .rest = root(rest, narrow<int64_t>(squares.size()) - count)};
}

}  // namespace ds
