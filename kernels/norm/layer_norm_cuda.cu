// Norms on CUDA devices: a block takes a row at a time, and each of its threads the same elements
// of it in every pass, so that results may lie where operands were. Formulas are those of
// layer_norm.cpp.
#include <algorithm>

#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/norm/layer_norm_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;

template <class T>
struct ForwardPointers {
  const T* x;
  const T* residual;  // or null
  const T* gamma;
  const T* beta;  // or null
  T* sum;         // with a residual
  T* y;
  float* mean;  // or null
  float* inv;
};

template <class T>
struct BackwardPointers {
  const T* x;
  const T* gamma;
  const float* mean;  // or null
  const float* inv;
  const T* dy;
  const T* residual;  // or null
  T* dx;
};

// The sum over a row of what `term` makes of each element's index, by all threads of a block.
template <int N, class Term>
__device__ float row_sum(int64_t columns, Term term) {
  float total = 0;
  for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
    total += term(c);
  }
  return cuda::block_sum(total);
}

// What the weight multiplies by.
template <Norm kKind, class T>
__device__ float factor_of(T gamma) {
  const auto weight = static_cast<float>(gamma);
  return kKind == Norm::kRmsOnePlus ? 1.0F + weight : weight;
}

template <Norm kKind, int N, class T>
__global__ void forward_kernel(int64_t rows, int64_t columns, float eps, ForwardPointers<T> p) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t at = row * columns;
    const T* const x = p.residual != nullptr ? p.sum : p.x;
    const float total = row_sum<N>(columns, [&](int64_t c) {
      Pack<T, N> value = cuda::load<N>(p.x + at + c);
      float sum = 0;
      if (p.residual != nullptr) {
        const Pack<T, N> residual = cuda::load<N>(p.residual + at + c);
        for (int i = 0; i < N; ++i) {
          value.values[i] = static_cast<T>(static_cast<float>(value.values[i]) +
                                           static_cast<float>(residual.values[i]));
        }
        cuda::store(value, p.sum + at + c);
      }
      for (int i = 0; i < N; ++i) sum += static_cast<float>(value.values[i]);
      return sum;
    });
    const auto width = static_cast<float>(columns);
    const float mean = kKind == Norm::kLayer ? total / width : 0.0F;
    const float squares = row_sum<N>(columns, [&](int64_t c) {
      const Pack<T, N> value = cuda::load<N>(x + at + c);
      float sum = 0;
      for (int i = 0; i < N; ++i) {
        const float centred = static_cast<float>(value.values[i]) - mean;
        sum = fmaf(centred, centred, sum);
      }
      return sum;
    });
    const float inv = 1.0F / sqrtf(squares / width + eps);
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
      const Pack<T, N> value = cuda::load<N>(x + at + c);
      const Pack<T, N> gamma = cuda::load<N>(p.gamma + c);
      Pack<T, N> beta{}, result;
      if (kKind == Norm::kLayer) beta = cuda::load<N>(p.beta + c);
      for (int i = 0; i < N; ++i) {
        const float normal = (static_cast<float>(value.values[i]) - mean) * inv;
        const auto shift = kKind == Norm::kLayer ? static_cast<float>(beta.values[i]) : 0.0F;
        result.values[i] = static_cast<T>(fmaf(normal, factor_of<kKind>(gamma.values[i]), shift));
      }
      cuda::store(result, p.y + at + c);
    }
    if (threadIdx.x != 0) continue;
    if (kKind == Norm::kLayer) p.mean[row] = mean;
    p.inv[row] = inv;
  }
}

// dy, g = dy gamma and h = (x - mean) inv of the elements of a pack.
template <int N>
struct Slopes {
  float dy[N], g[N], h[N];
};

template <Norm kKind, int N, class T>
__device__ Slopes<N> slopes_of(const Pack<T, N>& x, const Pack<T, N>& dy, const Pack<T, N>& gamma,
                               float mean, float inv) {
  Slopes<N> out;
  for (int i = 0; i < N; ++i) {
    out.dy[i] = static_cast<float>(dy.values[i]);
    out.g[i] = out.dy[i] * factor_of<kKind>(gamma.values[i]);
    out.h[i] = (static_cast<float>(x.values[i]) - mean) * inv;
  }
  return out;
}

template <Norm kKind, int N, class T>
__device__ Slopes<N> slopes_at(const BackwardPointers<T>& p, int64_t at, int64_t c, float mean,
                               float inv) {
  return slopes_of<kKind, N>(cuda::load<N>(p.x + at + c), cuda::load<N>(p.dy + at + c),
                             cuda::load<N>(p.gamma + c), mean, inv);
}

template <int N, class T>
__device__ Pack<T, N> gradients_of(const Slopes<N>& s, const Pack<T, N>& residual,
                                   bool has_residual, float mean_g, float mean_gh, float inv) {
  Pack<T, N> result;
  for (int i = 0; i < N; ++i) {
    float dx = fmaf(-s.h[i], mean_gh, s.g[i] - mean_g) * inv;
    if (has_residual) dx += static_cast<float>(residual.values[i]);
    result.values[i] = static_cast<T>(dx);
  }
  return result;
}

template <Norm kKind>
inline constexpr int kWeightSums = kKind == Norm::kLayer ? 2 : 1;  // dgamma; dbeta

// What the rows of a group add to the gradients of weights so far. A thread reads and writes those
// of its own elements alone, so that nobody waits.
template <int N>
struct GroupSums {
  float* first;
  int64_t columns, element_stride, pack_stride;

  __device__ float& at(int sum, int64_t c, int i) const {
    return first[sum * columns + c / N * pack_stride + i * element_stride];
  }
};

// In shared memory neighbouring threads have neighbouring numbers, and so no conflict of banks.
template <int N>
__device__ GroupSums<N> in_shared_memory(float* first, int64_t columns) {
  return {.first = first, .columns = columns, .element_stride = columns / N, .pack_stride = 1};
}

template <int N>
__device__ GroupSums<N> in_order(float* first, int64_t columns) {
  return {.first = first, .columns = columns, .element_stride = 1, .pack_stride = N};
}

template <Norm kKind, int N, class T>
__device__ void backward_row(int64_t row, const BackwardPointers<T>& p,
                             const GroupSums<N>& weights) {
  const int64_t columns = weights.columns;
  const int64_t at = row * columns;
  const float mean = kKind == Norm::kLayer ? p.mean[row] : 0.0F;
  const float inv = p.inv[row];
  float sum_g = 0, sum_gh = 0;
  for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
    const Slopes<N> s = slopes_at<kKind, N>(p, at, c, mean, inv);
    for (int i = 0; i < N; ++i) {
      sum_g += s.g[i];
      sum_gh = fmaf(s.g[i], s.h[i], sum_gh);
      weights.at(0, c, i) = fmaf(s.dy[i], s.h[i], weights.at(0, c, i));
      if (kKind == Norm::kLayer) weights.at(1, c, i) += s.dy[i];
    }
  }
  const float scale = 1.0F / static_cast<float>(columns);
  const float mean_g = kKind == Norm::kLayer ? cuda::block_sum(sum_g) * scale : 0.0F;
  const float mean_gh = cuda::block_sum(sum_gh) * scale;
  for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
    const Slopes<N> s = slopes_at<kKind, N>(p, at, c, mean, inv);
    Pack<T, N> residual{};
    if (p.residual != nullptr) residual = cuda::load<N>(p.residual + at + c);
    cuda::store(gradients_of(s, residual, p.residual != nullptr, mean_g, mean_gh, inv),
                p.dx + at + c);
  }
}

// A block takes a group of rows, and reads and writes each of them once: what they add to the
// gradients of weights goes to parts [groups, kWeightSums, columns].
template <Norm kKind, int N, class T>
__global__ void backward_kernel(int64_t rows, int64_t rows_of_group, int64_t columns,
                                bool sums_are_shared, BackwardPointers<T> p, float* parts) {
  constexpr int kSums = kWeightSums<kKind>;
  DS_SHARED_OF_LAUNCH(float, shared);
  const int64_t step = int64_t{blockDim.x} * N;
  for (int64_t group = blockIdx.x; group * rows_of_group < rows; group += gridDim.x) {
    const GroupSums<N> part = in_order<N>(parts + group * kSums * columns, columns);
    const GroupSums<N> sums = sums_are_shared ? in_shared_memory<N>(shared, columns) : part;
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += step) {
      for (int i = 0; i < N * kSums; ++i) sums.at(i / N, c, i % N) = 0;
    }
    const int64_t first = group * rows_of_group;
    const int64_t last = first + rows_of_group < rows ? first + rows_of_group : rows;
    for (int64_t row = first; row < last; ++row) backward_row<kKind>(row, p, sums);
    if (!sums_are_shared) continue;
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += step) {
      for (int i = 0; i < N * kSums; ++i) part.at(i / N, c, i % N) = sums.at(i / N, c, i % N);
    }
  }
}

// What a thread has of a row of which each thread has one pack.
template <int N, class T>
struct PackOfRow {
  Pack<T, N> x{}, dy{}, residual{};
  float mean = 0, inv = 0;

  template <Norm kKind>
  static __device__ PackOfRow read(const BackwardPointers<T>& p, int64_t row, int64_t columns,
                                   int64_t c) {
    PackOfRow out;
    if (kKind == Norm::kLayer) out.mean = p.mean[row];
    out.inv = p.inv[row];
    if (c >= columns) return out;
    const int64_t at = row * columns + c;
    out.x = cuda::load<N>(p.x + at);
    out.dy = cuda::load<N>(p.dy + at);
    if (p.residual != nullptr) out.residual = cuda::load<N>(p.residual + at);
    return out;
  }
};

struct RowSums {
  float g = 0, gh = 0;
};

// As block_sum() of either number. Rounds take turns with two places, so that a round waits once:
// who writes to a place has met all who read what was there two rounds before.
__device__ inline RowSums sum_of_block(const RowSums& own, int round) {
  DS_SHARED(RowSums, of_warps, 2 * cuda::kWarp);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  const int warps = static_cast<int>(blockDim.x) / cuda::kWarp;
  RowSums* const here = of_warps + round % 2 * cuda::kWarp;
  const RowSums of_warp{.g = cuda::warp_reduce(own.g, cuda::Plus{}),
                        .gh = cuda::warp_reduce(own.gh, cuda::Plus{})};
  if (lane == 0) here[threadIdx.x / cuda::kWarp] = of_warp;
  __syncthreads();
  const RowSums one = lane < warps ? here[lane] : RowSums{};
  return {.g = cuda::warp_reduce(one.g, cuda::Plus{}),
          .gh = cuda::warp_reduce(one.gh, cuda::Plus{})};
}

// As backward_kernel(), with its bits, for rows of which each thread has one pack at most: that is
// read once, a row ahead of the one that is summed, and stays in registers, as do the sums for the
// gradients of weights.
template <Norm kKind, int N, class T>
__global__ void backward_of_packs_kernel(int64_t rows, int64_t rows_of_group, int64_t columns,
                                         BackwardPointers<T> p, float* parts) {
  constexpr int kSums = kWeightSums<kKind>;
  const int64_t c = int64_t{threadIdx.x} * N;
  const bool is_inside = c < columns;
  const float scale = 1.0F / static_cast<float>(columns);
  Pack<T, N> gamma{};
  if (is_inside) gamma = cuda::load<N>(p.gamma + c);
  int round = 0;
  for (int64_t group = blockIdx.x; group * rows_of_group < rows; group += gridDim.x) {
    float sums[kSums][N] = {};
    const int64_t first = group * rows_of_group;
    const int64_t last = first + rows_of_group < rows ? first + rows_of_group : rows;
    auto next = PackOfRow<N, T>::template read<kKind>(p, first, columns, c);
    for (int64_t row = first; row < last; ++row, ++round) {
      const PackOfRow<N, T> own = next;
      if (row + 1 < last) next = PackOfRow<N, T>::template read<kKind>(p, row + 1, columns, c);
      const Slopes<N> s = slopes_of<kKind>(own.x, own.dy, gamma, own.mean, own.inv);
      RowSums of_thread;
      for (int i = 0; i < N; ++i) {
        of_thread.g += s.g[i];
        of_thread.gh = fmaf(s.g[i], s.h[i], of_thread.gh);
        sums[0][i] = fmaf(s.dy[i], s.h[i], sums[0][i]);
        if constexpr (kKind == Norm::kLayer) sums[1][i] += s.dy[i];
      }
      const RowSums total = sum_of_block(of_thread, round);
      const float mean_g = kKind == Norm::kLayer ? total.g * scale : 0.0F;
      if (!is_inside) continue;
      cuda::store(
          gradients_of(s, own.residual, p.residual != nullptr, mean_g, total.gh * scale, own.inv),
          p.dx + row * columns + c);
    }
    if (!is_inside) continue;
    for (int sum = 0; sum < kSums; ++sum) {
      for (int i = 0; i < N; ++i) parts[(group * kSums + sum) * columns + c + i] = sums[sum][i];
    }
  }
}

// Rows enough that their sums are little beside them, and groups enough for every processor of a
// GPU: as many as Hopper's 132 have blocks at once, six each of narrow rows, or a whole multiple of
// it, for three, two or one.
int64_t rows_of_group(int64_t rows) {
  constexpr int64_t kGroups = 132 * 6;
  return std::max<int64_t>((rows + kGroups - 1) / kGroups, 16);
}

template <Norm kKind, class T>
void forward(Stream& stream, std::string_view name, const NormForward& a, int64_t rows) {
  constexpr int kPack = cuda::kPackOf<T>;
  const ForwardPointers<T> p{.x = elements<const T>(a.x),
                             .residual = elements<const T>(a.residual),
                             .gamma = elements<const T>(a.gamma),
                             .beta = elements<const T>(a.beta),
                             .sum = elements<T>(a.sum),
                             .y = elements<T>(a.y),
                             .mean = elements<float>(a.mean),
                             .inv = elements<float>(a.inv)};
  const int64_t columns = a.gamma.numel();
  const bool packed =
      cuda::rows_are_packs<kPack>(columns, p.x, p.residual, p.gamma, p.beta, p.sum, p.y);
  cuda::launch(name, packed ? forward_kernel<kKind, kPack, T> : forward_kernel<kKind, 1, T>,
               cuda::shape_for_rows(rows, packed ? columns / kPack : columns), stream, rows,
               columns, a.eps, p);
}

template <Norm kKind>
void write_weights(Stream& stream, const cuda::ColumnParts<kWeightSums<kKind>>& sums,
                   LayerNormGrads& grads) {
  if (!grads.dgamma.defined()) return;  // nobody wants them, and dx has made their parts anyway
  on_float(grads.dgamma.dtype(), [&]<class G>() {
    cuda::ColumnTotals<kWeightSums<kKind>, G> totals;
    totals.of[0] = {elements<G>(grads.dgamma), grads.write_gamma == Write::kAccumulate};
    if constexpr (kKind == Norm::kLayer) {
      totals.of[1] = {elements<G>(grads.dbeta), grads.write_beta == Write::kAccumulate};
    }
    sums.write(stream, totals);
  });
}

template <Norm kKind, class T>
void backward(Stream& stream, std::string_view name, const NormBackward& a, int64_t rows,
              LayerNormGrads& grads) {
  constexpr int kPack = cuda::kPackOf<T>;
  constexpr int kSums = kWeightSums<kKind>;
  const BackwardPointers<T> p{.x = elements<const T>(a.x),
                              .gamma = elements<const T>(a.gamma),
                              .mean = elements<const float>(a.mean),
                              .inv = elements<const float>(a.inv),
                              .dy = elements<const T>(a.dy),
                              .residual = elements<const T>(a.residual_grad),
                              .dx = elements<T>(a.dx)};
  const int64_t columns = a.gamma.numel();
  const int64_t group = rows_of_group(rows);
  const int64_t groups = (rows + group - 1) / group;
  const cuda::ColumnParts<kSums> sums(name, stream, groups, columns);
  const bool packed = cuda::rows_are_packs<kPack>(columns, p.x, p.gamma, p.dy, p.residual, p.dx);
  cuda::LaunchShape shape = cuda::shape_for_rows(groups, packed ? columns / kPack : columns);
  if (packed && columns / kPack <= shape.threads) {
    cuda::launch(name, backward_of_packs_kernel<kKind, kPack, T>, shape, stream, rows, group,
                 columns, p, sums.parts());
    return write_weights<kKind>(stream, sums, grads);
  }
  const size_t sum_bytes = sizeof(float) * kSums * static_cast<size_t>(columns);
  const bool sums_are_shared = sum_bytes <= cuda::kMostSharedBytes;
  if (sums_are_shared) shape.shared_bytes = sum_bytes;
  cuda::launch(name, packed ? backward_kernel<kKind, kPack, T> : backward_kernel<kKind, 1, T>,
               shape, stream, rows, group, columns, sums_are_shared, p, sums.parts());
  write_weights<kKind>(stream, sums, grads);
}

}  // namespace

void norm_forward_cuda(Stream& stream, std::string_view name, const NormForward& a, int64_t rows) {
  on_float(a.x.dtype(), [&]<class T>() {
    on_norm(a.kind, [&]<Norm kKind>() { forward<kKind, T>(stream, name, a, rows); });
  });
}

void norm_backward_cuda(Stream& stream, std::string_view name, const NormBackward& a, int64_t rows,
                        LayerNormGrads& grads) {
  on_float(a.x.dtype(), [&]<class T>() {
    on_norm(a.kind, [&]<Norm kKind>() { backward<kKind, T>(stream, name, a, rows, grads); });
  });
}

}  // namespace ds::kernels::detail
