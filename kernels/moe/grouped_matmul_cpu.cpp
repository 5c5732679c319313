// Products by expert on the CPU: gemm() makes blocks of them, whose extent depends on the rows of
// their expert alone. Threads take blocks as they come, each with a stream of its own thread, so
// that a few large experts are shared out as well as many small ones.
#include "kernels/moe/grouped_matmul_cpu.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/device/dispatch.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "kernels/cpu/scratch.h"
#include "kernels/elementwise/spans.h"
#include "kernels/matmul/gemm.h"
#include "kernels/moe/grouped_matmul_operands.h"

namespace ds::kernels::detail {
namespace {

// The largest block. Libraries plan a product for each number of rows that they have seen, so that
// there are no more plans than rows of a block, whatever routing does.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockColumns = 384;
constexpr int64_t kBlockDepth = 512;

struct Block {
  int64_t expert, first, rows, column, columns;
};

struct Worker {
  HostMemory memory;
  ThreadPool pool{1};
  Stream stream{{.memory = &memory, .pool = &pool}};
  Scratch sums;
};
struct Workers {
  std::vector<std::unique_ptr<Worker>> of_threads;
};

void compute_blocks(Stream& stream, const std::vector<Block>& blocks,
                    const std::function<void(Worker&, const Block&)>& compute) {
  auto& workers = stream.state<Workers>().of_threads;
  while (narrow<int>(workers.size()) < stream.pool().threads()) {
    workers.push_back(std::make_unique<Worker>());
  }
  std::atomic<size_t> next{0};
  const auto work = [&](int index) {
    for (size_t i = next.fetch_add(1); i < blocks.size(); i = next.fetch_add(1)) {
      compute(*nth(workers, index), blocks[i]);
    }
  };
  if (blocks.size() <= 1) {  // not worth waking anybody
    work(0);
  } else {
    stream.pool().for_each_thread(work);
  }
}

const int32_t* checked_offsets(std::string_view op, const Tensor& offsets, int64_t rows) {
  const auto* const all = offsets.data<int32_t>();
  const int64_t experts = offsets.numel() - 1;
  for (int64_t e = 0; e < experts; ++e) {
    DS_CHECK(all[e] >= 0 && all[e] <= all[e + 1] && all[e + 1] <= rows,
             "{}: expert {} has rows {} to {}, of {}", op, e, all[e], all[e + 1], rows);
  }
  return all;
}

// Blocks of at most `most_rows` rows that make the whole.
void add_blocks(const Block& whole, int64_t most_rows, std::vector<Block>& blocks) {
  for (int64_t row = 0; row < whole.rows; row += most_rows) {
    for (int64_t column = 0; column < whole.columns; column += kBlockColumns) {
      blocks.push_back({.expert = whole.expert,
                        .first = whole.first + row,
                        .rows = std::min(most_rows, whole.rows - row),
                        .column = column,
                        .columns = std::min(kBlockColumns, whole.columns - column)});
    }
  }
}

std::byte* element(const Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) +
         index * static_cast<int64_t>(size_of(tensor.dtype()));
}

// One block of the gradient of an expert's matrix: rows [row, row + rows) of it are columns of a.
void multiply_segment(Worker& worker, const GroupedMatmulWeightsArgs& args, const Block& block,
                      int64_t begin, int64_t end) {
  const int64_t to = (block.expert * args.a_columns + block.first) * args.b_columns + block.column;
  const bool is_fp32 = args.out.dtype() == DType::kF32;
  float* const sums = is_fp32 ? args.out.data<float>() + to
                              : worker.sums.reserve(to_size(block.rows * block.columns));
  const int64_t stride = is_fp32 ? args.b_columns : block.columns;
  const DType dtype = args.a.dtype();
  for (int64_t row = begin; row < end; row += kBlockDepth) {
    const bool adds = row > begin || (is_fp32 && args.write == Write::kAccumulate);
    gemm(worker.stream, {.m = block.rows,
                         .n = block.columns,
                         .k = std::min(kBlockDepth, end - row),
                         .a = {element(args.a, row * args.a_columns + block.first), dtype,
                               args.a_columns, Transpose::kYes},
                         .b = {element(args.b, row * args.b_columns + block.column), dtype,
                               args.b_columns, Transpose::kNo},
                         .c = {sums, DType::kF32, stride, Transpose::kNo},
                         .write = adds ? Write::kAccumulate : Write::kOverwrite});
  }
  if (is_fp32) return;
  const auto write = args.write == Write::kAccumulate ? accumulate_span : cast_span;
  for (int64_t i = 0; i < block.rows; ++i) {
    write(sums + i * stride, DType::kF32, element(args.out, to + i * args.b_columns),
          args.out.dtype(), block.columns);
  }
}

void clear_matrix(const GroupedMatmulWeightsArgs& args, const Block& block) {
  on_float(args.out.dtype(), [&]<class T>() {
    T* const matrix = args.out.data<T>() + block.expert * args.a_columns * args.b_columns;
    for (int64_t i = block.first; i < block.first + block.rows; ++i) {
      std::fill_n(matrix + i * args.b_columns + block.column, block.columns, static_cast<T>(0.0F));
    }
  });
}

}  // namespace

void grouped_matmul_cpu(Stream& stream, const GroupedMatmulArgs& args) {
  const GroupedProduct p = product_of(args);
  const int32_t* const offsets = checked_offsets("grouped_matmul", args.offsets, p.rows);
  const bool transposed = args.transpose_weights == Transpose::kYes;
  const DType dtype = args.rows.dtype();
  std::vector<Block> blocks;
  for (int64_t e = 0; e < p.experts; ++e) {
    add_blocks({.expert = e,
                .first = offsets[e],
                .rows = offsets[e + 1] - offsets[e],
                .column = 0,
                .columns = p.columns},
               kBlockRows, blocks);
  }
  compute_blocks(stream, blocks, [&](Worker& worker, const Block& block) {
    const int64_t matrix = block.expert * p.depth * p.columns;
    gemm(worker.stream,
         {.m = block.rows,
          .n = block.columns,
          .k = p.depth,
          .a = {element(args.rows, block.first * p.depth), dtype, p.depth, Transpose::kNo},
          .b = {element(args.weights, matrix + block.column * (transposed ? p.depth : 1)), dtype,
                transposed ? p.depth : p.columns, args.transpose_weights},
          .c = {element(args.out, block.first * p.columns + block.column), args.out.dtype(),
                p.columns, Transpose::kNo}});
  });
  on_float(args.out.dtype(), [&]<class T>() {
    T* const out = args.out.data<T>();
    std::fill(out + offsets[p.experts] * p.columns, out + p.rows * p.columns, static_cast<T>(0.0F));
  });
}

void grouped_matmul_weights_cpu(Stream& stream, const GroupedMatmulWeightsArgs& args) {
  const int64_t experts = args.offsets.numel() - 1;
  const int32_t* const offsets =
      checked_offsets("grouped_matmul_weights", args.offsets, args.a.numel() / args.a_columns);
  std::vector<Block> blocks;
  for (int64_t e = 0; e < experts; ++e) {
    if (offsets[e] == offsets[e + 1] && args.write == Write::kAccumulate) continue;
    add_blocks(
        {.expert = e, .first = 0, .rows = args.a_columns, .column = 0, .columns = args.b_columns},
        kBlockColumns, blocks);
  }
  compute_blocks(stream, blocks, [&](Worker& worker, const Block& block) {
    const int64_t begin = offsets[block.expert], end = offsets[block.expert + 1];
    if (begin == end) {
      clear_matrix(args, block);
    } else {
      multiply_segment(worker, args, block, begin, end);
    }
  });
}

}  // namespace ds::kernels::detail
