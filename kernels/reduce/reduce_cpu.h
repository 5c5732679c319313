// The CPU half of kernels/reduce. Operands have been checked.
#pragma once

#include <algorithm>
#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"
#include "kernels/reduce/sum_block.h"

namespace ds::kernels::detail {

struct BlockSums {  // reused by every reduction of a stream
  std::vector<double> values;
};

// What `block`, called with ranges [begin, end) of kSumBlock elements, gives of each, added in
// order.
template <class Block>
double sum_blocks(Stream& stream, int64_t numel, const Block& block) {
  auto& sums = stream.state<BlockSums>().values;
  const int64_t blocks = divide_up(numel, kSumBlock);
  sums.assign(to_size(blocks), 0.0);
  stream.pool().parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      nth(sums, i) = block(i * kSumBlock, std::min((i + 1) * kSumBlock, numel));
    }
  });
  double total = 0;
  for (const double value : sums) total += value;
  return total;
}

void sum_into_cpu(Stream& stream, const Tensor& x, double divisor, Write write,
                  const Tensor& total);
void sum_of_squares_into_cpu(Stream& stream, const Tensor& x, Write write, const Tensor& total);
void largest_into_cpu(Stream& stream, const Tensor& x, const Tensor& total);
void add_in_order_cpu(const Tensor& numbers, const Tensor& total);
bool all_finite_cpu(Stream& stream, const Tensor& x);
void column_sum_cpu(Stream& stream, const MatrixView& x, Write write, Tensor& y);

}  // namespace ds::kernels::detail
