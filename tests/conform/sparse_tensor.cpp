// Area sparse_tensor: row-sparse gradients of comm/sparse_rows.
#include <stdexcept>

#include "comm/sparse_rows.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

SparseRows sparse_of(const Json& matrix) {
  const int64_t rows = array(matrix).Size();
  const int64_t columns = rows > 0 ? array(matrix[0]).Size() : 0;
  return SparseRows::from_dense(flatten<float>(matrix), rows, columns);
}

std::vector<std::vector<float>> rows_of(const std::vector<float>& values, int64_t columns) {
  std::vector<std::vector<float>> rows;
  for (auto at = values.begin(); columns > 0 && at != values.end(); at += columns) {
    rows.emplace_back(at, at + columns);
  }
  return rows;
}

void describe(Answer& answer, const SparseRows& sparse) {
  answer.add("indices", sparse.indices)
      .add("values", rows_of(sparse.values, sparse.columns))
      .add("to_dense", rows_of(sparse.to_dense(), sparse.columns))
      .add("sparse_size", std::vector<int64_t>{sparse.stored_numel(), sparse.dense_numel()});
}

}  // namespace

std::string sparse_tensor(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  Answer answer;
  if (op == "from_dense") {
    describe(answer, sparse_of(need(input, "dense")));
  } else if (op == "add") {
    SparseRows sum = sparse_of(need(input, "a"));
    sum.add(sparse_of(need(input, "b")));
    describe(answer, sum);
  } else if (op == "reduce") {
    std::vector<SparseRows> parts;
    for (const Json& grad : array(need(input, "grads")).GetArray())
      parts.push_back(sparse_of(grad));
    describe(answer, average_over_ranks(parts));
  } else {
    throw std::invalid_argument("op: " + op);
  }
  return answer.text();
}

}  // namespace ds::conform
