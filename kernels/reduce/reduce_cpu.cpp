// Reductions on the CPU, in a fixed order: over blocks, and columns from the first row to the last.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_cpu.cpp"
#include "kernels/reduce/reduce_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// Sum, or sum of squares, in fp64.
template <bool kSquare, class T>
double block_sum(const T* x, int64_t n) {
  const Lanes d;
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> dh;
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  auto total = hn::Zero(dd);
  for (int64_t i = 0; i < n; i += lane_count()) {
    hn::Store(get(d, x + i, at_most_lanes(n - i)), d, lanes);
    for (size_t k = 0; k < hn::Lanes(d); k += hn::Lanes(dd)) {
      const auto v = hn::PromoteTo(dd, hn::Load(dh, lanes + k));
      total = kSquare ? hn::MulAdd(v, v, total) : hn::Add(total, v);
    }
  }
  return hn::GetLane(hn::SumOfLanes(dd, total));
}

template <class T>
bool finite_typed(const T* x, int64_t n) {
  const Lanes d;
  auto poison = hn::Zero(d);  // becomes NaN with the first infinity or NaN
  for (int64_t i = 0; i < n; i += lane_count()) {
    poison = hn::MulAdd(get(d, x + i, at_most_lanes(n - i)), hn::Zero(d), poison);
  }
  return sum_lanes(d, poison) == 0.0F;
}

// Rows are added up in groups of kGroup, and the groups in order: the error grows with the group
// and the number of groups, not with the number of rows. kSide vectors go down the rows side by
// side, because one alone would use a cache line of each row and leave the next one to another
// pass.
constexpr int kSide = 4;

template <int kVectors, class TX, class TY>
void column_sum_typed(const TX* x, int64_t rows, int64_t stride, Write write, TY* y, int64_t begin,
                      int64_t end) {
  constexpr int64_t kGroup = 64;
  const Lanes d;
  const auto place = [&](int v) { return begin + v * lane_count(); };
  const auto count = [&](int v) { return at_most_lanes(end - place(v)); };
  F32Vector total[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    total[v] = write == Write::kAccumulate ? get(d, y + place(v), count(v)) : hn::Zero(d);
  }
  for (int64_t first = 0; first < rows; first += kGroup) {
    const int64_t last = first + kGroup < rows ? first + kGroup : rows;
    F32Vector part[kVectors];
    for (int v = 0; v < kVectors; ++v) part[v] = hn::Zero(d);
    for (int64_t row = first; row < last; ++row) {
      const TX* from = x + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        part[v] = hn::Add(part[v], get(d, from + place(v), count(v)));
      }
    }
    for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], part[v]);
  }
  for (int v = 0; v < kVectors; ++v) put(total[v], d, y + place(v), count(v));
}

}  // namespace

double sum_block(const Tensor& x, int64_t begin, int64_t end) {
  return on_float(x.dtype(),
                  [&]<class T>() { return block_sum<false>(x.data<T>() + begin, end - begin); });
}

double square_block(const Tensor& x, int64_t begin, int64_t end) {
  return on_float(x.dtype(),
                  [&]<class T>() { return block_sum<true>(x.data<T>() + begin, end - begin); });
}

bool finite_range(const Tensor& x, int64_t begin, int64_t end) {
  return on_float(x.dtype(),
                  [&]<class T>() { return finite_typed(x.data<T>() + begin, end - begin); });
}

void column_sum_range(const MatrixView& x, Write write, Tensor& y, int64_t begin, int64_t end) {
  on_float(x.tensor.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      const TX* from = x.tensor.data<TX>() + x.offset;
      TY* to = y.data<TY>();
      int64_t c = begin;
      for (; c + kSide * lane_count() <= end; c += kSide * lane_count()) {
        column_sum_typed<kSide>(from, x.rows, x.row_stride, write, to, c, c + kSide * lane_count());
      }
      for (; c < end; c += lane_count()) {
        column_sum_typed<1>(from, x.rows, x.row_stride, write, to, c, end);
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(sum_block);
DS_SIMD_EXPORT(square_block);
DS_SIMD_EXPORT(finite_range);
DS_SIMD_EXPORT(column_sum_range);

void put_total(double value, Write write, const Tensor& total) {
  double& target = *total.data<double>();
  target = write == Write::kAccumulate ? target + value : value;
}

}  // namespace

namespace detail {

void sum_into_cpu(Stream& stream, const Tensor& x, double divisor, Write write,
                  const Tensor& total) {
  const auto block = [&](int64_t begin, int64_t end) { return DS_SIMD(sum_block)(x, begin, end); };
  put_total(sum_blocks(stream, x.numel(), block) / divisor, write, total);
}

void sum_of_squares_into_cpu(Stream& stream, const Tensor& x, Write write, const Tensor& total) {
  const auto block = [&](int64_t begin, int64_t end) {
    return DS_SIMD(square_block)(x, begin, end);
  };
  put_total(sum_blocks(stream, x.numel(), block), write, total);
}

void largest_into_cpu(Stream& stream, const Tensor& x, const Tensor& total) {
  const int64_t blocks = divide_up(x.numel(), kSumBlock);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<double> largest(to_size(std::max<int64_t>(blocks, 1)), kNone);
  stream.pool().parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* begin = x.data<float>() + i * kSumBlock;
      const float* end = x.data<float>() + std::min((i + 1) * kSumBlock, x.numel());
      nth(largest, i) = *std::max_element(begin, end);
    }
  });
  put_total(*std::ranges::max_element(largest), Write::kOverwrite, total);
}

void add_in_order_cpu(const Tensor& numbers, const Tensor& total) {
  double& sum = *total.data<double>();
  for (int64_t i = 0; i < numbers.numel(); ++i) sum += numbers.data<double>()[i];
}

bool all_finite_cpu(Stream& stream, const Tensor& x) {
  std::atomic<bool> finite{true};
  stream.pool().parallel_for(x.numel(), kSumBlock, [&](int64_t begin, int64_t end) {
    if (!DS_SIMD(finite_range)(x, begin, end)) finite = false;
  });
  return finite;
}

void column_sum_cpu(Stream& stream, const MatrixView& x, Write write, Tensor& y) {
  stream.pool().parallel_for(y.numel(), 64, [&](int64_t begin, int64_t end) {
    DS_SIMD(column_sum_range)(x, write, y, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
