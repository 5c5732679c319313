// The product of one row with a matrix, as generation makes for every token; see gemm.h. Nothing of
// the matrix is used twice, so the time is that of reading it once: no panels are packed, and rows
// are read in the order of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/gemm_vector.cpp"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <atomic>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"
#include "kernels/matmul/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kRowsAtOnce = 4;   // of dot products: x is loaded once for all of them
constexpr int64_t kDepthAtOnce = 8;  // rows of b that are added to y in one pass over it
constexpr int64_t kAheadBytes =
    2048;  // asked for ahead of time: the hardware's prefetch stops at each page

template <class T>
HWY_INLINE void ask_ahead(const T* p) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + kAheadBytes);
}

// y[i] = sum over k of x[k] rows[i, k], for kRows rows.
template <int64_t kRows, class T>
HWY_INLINE void dot_rows(const T* rows, int64_t stride, int64_t depth, const float* x, float* y) {
  const Lanes d;
  F32Vector sum[kRows][2];
  for (auto& pair : sum) pair[0] = pair[1] = hn::Zero(d);
  int64_t k = 0;
  for (; k + 2 * lane_count() <= depth; k += 2 * lane_count()) {
    const auto x0 = load(d, x + k);
    const auto x1 = load(d, x + k + lane_count());
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      const T* row = rows + i * stride + k;
      ask_ahead(row);
      ask_ahead(row + lane_count());
      sum[i][0] = hn::MulAdd(x0, load(d, row), sum[i][0]);
      sum[i][1] = hn::MulAdd(x1, load(d, row + lane_count()), sum[i][1]);
    }
  }
  for (; k < depth; k += lane_count()) {
    const int64_t lanes = at_most_lanes(depth - k);
    const auto x0 = get(d, x + k, lanes);
    for (int64_t i = 0; i < kRows; ++i) {
      sum[i][0] = hn::MulAdd(x0, get(d, rows + i * stride + k, lanes), sum[i][0]);
    }
  }
  for (int64_t i = 0; i < kRows; ++i) y[i] = sum_lanes(d, hn::Add(sum[i][0], sum[i][1]));
}

template <class T>
void dot_all(const T* rows, int64_t stride, int64_t count, int64_t depth, const float* x,
             float* y) {
  int64_t i = 0;
  for (; i + kRowsAtOnce <= count; i += kRowsAtOnce) {
    dot_rows<kRowsAtOnce>(rows + i * stride, stride, depth, x, y + i);
  }
  for (; i < count; ++i) dot_rows<1>(rows + i * stride, stride, depth, x, y + i);
}

// y[j] += sum over k < kDepth of x[k] rows[k, j].
template <int64_t kDepth, class T>
HWY_INLINE void add_scaled(const T* rows, int64_t stride, int64_t columns, const float* x,
                           float* y) {
  const Lanes d;
  F32Vector scale[kDepth];
  for (int64_t k = 0; k < kDepth; ++k) scale[k] = hn::Set(d, x[k]);
  int64_t j = 0;
  for (; j + lane_count() <= columns; j += lane_count()) {
    auto sum = load(d, y + j);
#pragma GCC unroll 8
    for (int64_t k = 0; k < kDepth; ++k) {
      // The same columns of the rows that come next.
      __builtin_prefetch(rows + (k + kDepth) * stride + j);
      sum = hn::MulAdd(scale[k], load(d, rows + k * stride + j), sum);
    }
    store(sum, d, y + j);
  }
  for (; j < columns; ++j) {
    for (int64_t k = 0; k < kDepth; ++k) y[j] += x[k] * static_cast<float>(rows[k * stride + j]);
  }
}

template <class T>
void add_all(const T* rows, int64_t stride, int64_t columns, int64_t depth, const float* x,
             float* y) {
  std::fill(y, y + columns, 0.0F);
  int64_t k = 0;
  for (; k + kDepthAtOnce <= depth; k += kDepthAtOnce) {
    add_scaled<kDepthAtOnce>(rows + k * stride, stride, columns, x + k, y);
  }
  for (; k < depth; ++k) add_scaled<1>(rows + k * stride, stride, columns, x + k, y);
}

}  // namespace

// y[0..columns) = x op(b)[:, column .. column + columns).
void multiply_row(const detail::Gemm& g, int64_t column, int64_t columns, const float* x,
                  float* y) {
  on_float(g.b.dtype, [&]<class T>() {
    const T* b = static_cast<const T*>(g.b.data);
    if (g.b.transpose == Transpose::kYes) {
      dot_all(b + column * g.b.row_stride, g.b.row_stride, columns, g.k, x, y);
    } else {
      add_all(b + column, g.b.row_stride, columns, g.k, x, y);
    }
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels::detail {
namespace {

DS_SIMD_EXPORT(multiply_row);

struct Workspace {
  Scratch x, y;
};

// Blocks of columns that threads take as they come. Where b is transposed, a block is one piece of
// memory; else it is a piece of each row, and the longer the better for reading.
int64_t block_columns(const Gemm& g, int threads) {
  constexpr int64_t kUnit = 64;
  constexpr int64_t kBytes = int64_t{256} << 10;
  const int64_t share = (g.n + threads - 1) / threads;
  const int64_t of_memory = kBytes / (g.k * static_cast<int64_t>(size_of(g.b.dtype)));
  const int64_t wanted = g.b.transpose == Transpose::kYes ? std::min(share, of_memory) : share;
  return std::max(kUnit, (wanted + kUnit - 1) / kUnit * kUnit);
}

}  // namespace

bool is_vector_product(const Gemm& g) { return g.m == 1 && g.a.transpose == Transpose::kNo; }

void gemm_vector(Stream& stream, const Gemm& g) {
  if (g.n == 0) return;
  auto& workspace = stream.state<Workspace>();
  float* const x = workspace.x.reserve(to_size(g.k));
  float* const y = workspace.y.reserve(to_size(g.n));
  cast_span(g.a.data, g.a.dtype, x, DType::kF32, g.k);
  const int64_t width = block_columns(g, stream.pool().threads());
  const int64_t blocks = (g.n + width - 1) / width;
  std::atomic<int64_t> next{0};
  const auto work = [&](int) {
    for (int64_t i = next.fetch_add(1); i < blocks; i = next.fetch_add(1)) {
      const int64_t column = i * width;
      const GemmBlock block{0, 1, column, std::min(width, g.n - column)};
      DS_SIMD(multiply_row)(g, column, block.columns, x, y + column);
      finish_block(g, block, y + column, block.columns);
    }
  };
  if (blocks == 1) {
    work(0);
  } else {
    stream.pool().for_each_thread(work);
  }
}

}  // namespace ds::kernels::detail
#endif  // HWY_ONCE
