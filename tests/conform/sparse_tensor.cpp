// Area sparse_tensor: row-sparse gradients by the kernels of kernels/embedding. What rows travel is
// known there by the batch's tokens; the cases have matrices alone, of which DeepSpeed keeps the
// rows whose sum is not zero.
#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"
#include "tests/support/cpu_stream.h"

namespace ds::conform {
namespace {

using Floats = std::vector<float>;

struct Matrix {
  int64_t rows = 0, columns = 0;
  Floats numbers{};
};

Matrix matrix_of(const Json& json) {
  const int64_t rows = array(json).Size();
  return {.rows = rows,
          .columns = rows > 0 ? array(json[0]).Size() : 0,
          .numbers = flatten<float>(json)};
}

// In the order of PyTorch's sums, since rounding decides whether one is exactly zero: four partial
// sums over every fourth number, what is left over into the first.
float sum_of(std::span<const float> row) {
  std::array<float, 4> sums{};
  const size_t even = row.size() / 4 * 4;
  for (size_t i = 0; i < row.size(); ++i) sums[i < even ? i % 4 : 0] += row[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

std::vector<int32_t> kept_rows(const Matrix& of) {
  std::vector<int32_t> kept;
  const size_t columns = to_size(of.columns);
  for (size_t row = 0; row < to_size(of.rows); ++row) {
    if (sum_of(std::span(of.numbers).subspan(row * columns, columns)) != 0) {
      kept.push_back(static_cast<int32_t>(row));
    }
  }
  return kept;
}

// The rows of several matrices of one shape, one matrix after the other, and their sum.
struct Gathered {
  std::vector<int32_t> indices{};
  Floats values{}, sum{};
};

Gathered gathered(const std::vector<Matrix>& parts, float factor) {
  const int64_t rows = parts.at(0).rows, columns = parts[0].columns;
  testing::CpuStream cpu;
  // Lists have one length, as on ranks.
  Tensor lists = Tensor::empty({std::ssize(parts) * rows}, DType::kI32, cpu.stream);
  Tensor values = Tensor::empty({std::ssize(parts) * rows, columns}, DType::kF32, cpu.stream);
  Gathered all;
  for (int64_t part = 0; part < std::ssize(parts); ++part) {
    const Matrix& of = parts[to_size(part)];
    if (of.rows != rows || of.columns != columns) throw std::invalid_argument("other shapes");
    const std::vector<int32_t> kept = kept_rows(of);
    Tensor list = lists.narrow(part * rows, rows);
    std::ranges::fill_n(list.data<int32_t>(), rows, kernels::kNoRow);
    std::ranges::copy(kept, list.data<int32_t>());
    Tensor table = Tensor::empty({rows, columns}, DType::kF32, cpu.stream);
    std::ranges::copy(of.numbers, table.data<float>());
    Tensor own = values.narrow(part * rows * columns, rows * columns).reshape({rows, columns});
    kernels::take_rows(cpu.stream, table, list, own);
    kernels::scale(cpu.stream, factor, own);
    all.indices.insert(all.indices.end(), kept.begin(), kept.end());
    all.values.insert(all.values.end(), own.data<float>(),
                      own.data<float>() + std::ssize(kept) * columns);
  }
  Tensor sum = Tensor::zeros({rows, columns}, DType::kF32, cpu.stream);
  kernels::sum_rows(cpu.stream, lists, values, std::ssize(parts), kernels::Write::kOverwrite, sum);
  all.sum.assign(sum.data<float>(), sum.data<float>() + sum.numel());
  return all;
}

std::vector<Floats> rows_of(const Floats& values, int64_t columns) {
  std::vector<Floats> rows;
  for (auto at = values.begin(); columns > 0 && at != values.end(); at += columns) {
    rows.emplace_back(at, at + columns);
  }
  return rows;
}

std::string answer_of(const std::vector<Matrix>& parts, float factor) {
  const int64_t rows = parts.at(0).rows, columns = parts[0].columns;
  if (rows * columns == 0) throw std::invalid_argument("an empty matrix");
  const Gathered all = gathered(parts, factor);
  const int64_t stored = std::ssize(all.indices) + std::ssize(all.values);
  return Answer()
      .add("indices", all.indices)
      .add("values", rows_of(all.values, columns))
      .add("to_dense", rows_of(all.sum, columns))
      .add("sparse_size", std::vector<int64_t>{stored, rows * columns})
      .text();
}

}  // namespace

std::string sparse_tensor(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  std::vector<Matrix> parts;
  if (op == "from_dense") {
    parts = {matrix_of(need(input, "dense"))};
  } else if (op == "add") {
    parts = {matrix_of(need(input, "a")), matrix_of(need(input, "b"))};
  } else if (op == "reduce") {
    for (const Json& grad : array(need(input, "grads")).GetArray()) {
      parts.push_back(matrix_of(grad));
    }
  } else {
    throw std::invalid_argument("op: " + op);
  }
  const float ranks = op == "reduce" ? static_cast<float>(parts.size()) : 1.0F;
  return answer_of(parts, 1 / ranks);
}

}  // namespace ds::conform
