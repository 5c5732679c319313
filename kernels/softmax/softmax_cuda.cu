// Softmax cross entropy on CUDA devices. A block takes a row at a time: one pass over its logits
// makes their maximum and the sum of their exponentials, a second one writes the gradients over
// them. Rows may begin anywhere: accesses are packs from one 16-byte border to the next, and only
// what of a row lies before its first border and behind its last is read and written singly. So
// the order of a row's sum depends on its length and on where it begins between two borders.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/softmax/softmax_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;

// Long rows get large blocks: the fewer rows are under way, the more of them are still in the cache
// when their second pass comes. With 1024 threads there would be too few registers.
constexpr int kMostThreads = 512;
constexpr int kAhead = 2;  // packs that a thread reads before it uses the first
constexpr float kLog2E = 1.44269504F;
// Below all logits, and finite: minus infinity less itself would be no number.
constexpr float kLowest = -3.40282347e38F;

// Whether logits were capped, which no register is spent on where they were not.
enum class Cap : uint8_t { kNone, kSoft };

struct Operands {
  int64_t rows, columns;
  int64_t stride;          // elements from row to row
  int64_t first = 0;       // the logits are columns [first, first + columns)
  int64_t vocabulary = 0;  // of so many
  float grad_scale;
  const double* loss_scale;  // or null
  float softcap = 0;
  const int32_t* targets;
  const float* row_weights;  // or null
  float* losses;
  uint32_t* flags;
};

// Pack p of a row begins at element first(p); elements of the first and the last pack may be none
// of the row's.
template <class T>
struct Row {
  static constexpr int kPack = cuda::kPackOf<T>;
  T* logits;
  int64_t columns;
  int lead;  // elements from the border to the row's first

  __device__ Row(T* begin, int64_t count)
      : logits(begin),
        columns(count),
        lead(static_cast<int>(reinterpret_cast<uintptr_t>(begin) % cuda::kPackBytes / sizeof(T))) {}
  __device__ int64_t packs() const { return (lead + columns + kPack - 1) / kPack; }
  __device__ int64_t first(int64_t pack) const { return pack * kPack - lead; }
  __device__ bool is_whole(int64_t first) const { return first >= 0 && first + kPack <= columns; }
  __device__ bool has(int64_t element) const { return element >= 0 && element < columns; }
};

// What is not of the row adds nothing to a sum of exponentials.
template <class T>
__device__ void read(const Row<T>& row, int64_t first, float* values) {
  constexpr int kPack = Row<T>::kPack;
  if (row.is_whole(first)) {
    const Pack<T, kPack> pack = cuda::load<kPack>(static_cast<const T*>(row.logits) + first);
    for (int i = 0; i < kPack; ++i) values[i] = static_cast<float>(pack.values[i]);
  } else {
    for (int i = 0; i < kPack; ++i) {
      values[i] = row.has(first + i) ? static_cast<float>(row.logits[first + i]) : -INFINITY;
    }
  }
}

template <class G, class T>
__device__ void write(const float* values, const Row<T>& row, int64_t first) {
  constexpr int kPack = Row<T>::kPack;
  G* const grad = reinterpret_cast<G*>(row.logits);
  const bool is_aligned = sizeof(G) == sizeof(T) || row.lead == 0;
  if (is_aligned && row.is_whole(first)) {
    Pack<G, kPack> pack;
    for (int i = 0; i < kPack; ++i) pack.values[i] = static_cast<G>(values[i]);
    cuda::store(pack, grad + first);
  } else {
    for (int i = 0; i < kPack; ++i) {
      if (row.has(first + i)) grad[first + i] = static_cast<G>(values[i]);
    }
  }
}

// e^x to 2 ulp.
__device__ float exponential(float x) { return exp2f(x * kLog2E); }

struct Softmax {
  float largest;
  float total;  // of e^(x - largest)
};

// Each thread's total is relative to the largest logit that it has seen so far.
template <class T>
__device__ Softmax softmax_of(const Row<T>& row) {
  constexpr int kCount = kAhead * Row<T>::kPack;
  const int64_t packs = row.packs();
  const int64_t stride = blockDim.x;
  float largest = kLowest, total = 0;
  for (int64_t p = threadIdx.x; p < packs; p += stride * kAhead) {
    float x[kCount];
    for (int a = 0; a < kAhead; ++a) {
      read(row, row.first(p + a * stride), x + a * Row<T>::kPack);
    }
    const float before = largest;
    for (int i = 0; i < kCount; ++i) largest = fmaxf(largest, x[i]);
    total *= exponential(before - largest);
    for (int i = 0; i < kCount; ++i) total += exponential(x[i] - largest);
  }
  const float of_row = cuda::block_reduce(largest, cuda::Larger{}, kLowest);
  return {of_row, cuda::block_sum(total * exponential(largest - of_row))};
}

// It is read again where it is used: kept through the passes over a row, it would cost a register
// too many.
__device__ inline float weight_of(const Operands& o, int64_t row) {
  return row_weight(o.targets[row], o.row_weights, row);
}

template <class T>
__device__ Softmax write_loss(const Operands& o, const Row<T>& row, int64_t i) {
  // Before gradients are there.
  const auto at_target = static_cast<float>(row.logits[o.targets[i]]);
  const Softmax softmax = softmax_of(row);
  if (threadIdx.x == 0) {
    o.losses[i] = (logf(softmax.total) + softmax.largest - at_target) * weight_of(o, i);
  }
  return softmax;
}

// The loss of a row without a target that exists, or without weight, and what its gradients are.
__device__ float write_no_loss(const Operands& o, int64_t row) {
  const bool is_ignored = o.targets[row] < o.vocabulary;
  const float loss = is_ignored ? 0.0F : NAN;
  if (threadIdx.x == 0) {
    o.losses[row] = loss;
    if (!is_ignored) cuda::set_flag(DeviceFlag::kTargetOutsideVocabulary, o.flags);
  }
  return loss;
}

template <class G, class T>
__device__ void fill_gradients(const Row<T>& row, float value) {
  float values[Row<T>::kPack];
  for (float& each : values) each = value;
  for (int64_t p = threadIdx.x; p < row.packs(); p += blockDim.x) {
    write<G>(values, row, row.first(p));
  }
}

template <Cap kCap, class G, class T>
__device__ void write_gradients(const Row<T>& row, int64_t target, const Softmax& softmax,
                                float scale, float c) {
  constexpr int kPack = Row<T>::kPack;
  const float gain = scale / softmax.total;
  const int64_t packs = row.packs();
  for (int64_t round = 0; round < packs; round += blockDim.x) {
    const int64_t first = row.first(round + threadIdx.x);
    float x[kPack];
    read(row, first, x);
    for (int i = 0; i < kPack; ++i) {
      const float e = exponential(x[i] - softmax.largest);
      const float t = kCap == Cap::kSoft ? x[i] / c : 0.0F;
      x[i] = first + i == target ? (e / softmax.total - 1.0F) * scale : e * gain;
      // A cap that 16 bits cannot hold may have been rounded to above itself.
      if (kCap == Cap::kSoft) x[i] *= fmaxf(fmaf(-t, t, 1.0F), 0.0F);
    }
    // Narrower gradients lie over logits of this round and of those before it, which other threads
    // have to have read.
    if (sizeof(G) < sizeof(T)) __syncthreads();
    write<G>(x, row, first);
  }
}

template <class T>
__global__ void __launch_bounds__(kMostThreads) loss_kernel(Operands o, T* logits) {
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const Row<T> row(logits + i * o.stride, o.columns);
    if (weight_of(o, i) != 0 && row.has(o.targets[i])) {
      write_loss(o, row, i);
    } else {
      write_no_loss(o, i);
    }
  }
}

template <Cap kCap, class T, class G>
__global__ void __launch_bounds__(kMostThreads) gradient_kernel(Operands o, T* logits) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const Row<T> row(logits + i * o.stride, o.columns);
    if (weight_of(o, i) != 0 && row.has(o.targets[i])) {
      const Softmax softmax = write_loss(o, row, i);
      write_gradients<kCap, G>(row, o.targets[i], softmax, scale * weight_of(o, i), o.softcap);
    } else {
      fill_gradients<G>(row, write_no_loss(o, i));
    }
  }
}

// The numbers of each row, see softmax_part(). What is wrong with a target is found here.
template <class T>
__global__ void __launch_bounds__(kMostThreads) part_kernel(Operands o, T* logits, float* numbers) {
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const int64_t target = o.targets[i];
    const Row<T> row(logits + i * o.stride, o.columns);
    const Softmax softmax = softmax_of(row);
    if (threadIdx.x != 0) continue;
    if (target >= o.vocabulary) cuda::set_flag(DeviceFlag::kTargetOutsideVocabulary, o.flags);
    const bool is_here = target >= 0 && row.has(target - o.first);
    float* const out = numbers + i * kNumbersOfPart;
    out[0] = softmax.largest;
    out[1] = softmax.total;
    out[2] = is_here ? static_cast<float>(row.logits[target - o.first]) : 0.0F;
  }
}

struct WholeRow {
  Softmax softmax;
  float at_target;
};
__device__ inline WholeRow join_parts(const float* numbers, int ranks, int64_t stride) {
  WholeRow whole{.softmax = {.largest = numbers[0], .total = 0}, .at_target = 0};
  for (int r = 1; r < ranks; ++r) {
    whole.softmax.largest = fmaxf(whole.softmax.largest, numbers[r * stride]);
  }
  for (int r = 0; r < ranks; ++r) {
    const float* const of_rank = numbers + r * stride;
    whole.softmax.total += of_rank[1] * exponential(of_rank[0] - whole.softmax.largest);
    whole.at_target += of_rank[2];
  }
  return whole;
}

// The loss of every row; nothing of its logits. Where there is no such target, see write_no_loss().
__global__ void losses_of_parts_kernel(Operands o, const float* numbers, int ranks) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < o.rows;
       i += threads) {
    const int64_t target = o.targets[i];
    const WholeRow whole = join_parts(numbers + i * kNumbersOfPart, ranks, o.rows * kNumbersOfPart);
    const float weight = weight_of(o, i);
    const float loss =
        (logf(whole.softmax.total) + whole.softmax.largest - whole.at_target) * weight;
    o.losses[i] = target >= o.vocabulary ? NAN : weight == 0 ? 0.0F : loss;
  }
}

template <Cap kCap, class T, class G>
__global__ void __launch_bounds__(kMostThreads)
    gradients_of_parts_kernel(Operands o, T* logits, const float* numbers, int ranks) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const int64_t target = o.targets[i];
    const Row<T> row(logits + i * o.stride, o.columns);
    const float weight = weight_of(o, i);
    if (weight != 0 && target < o.vocabulary) {
      const WholeRow whole =
          join_parts(numbers + i * kNumbersOfPart, ranks, o.rows * kNumbersOfPart);
      write_gradients<kCap, G>(row, target - o.first, whole.softmax, scale * weight, o.softcap);
    } else {
      fill_gradients<G>(row, target < o.vocabulary ? 0.0F : NAN);
    }
  }
}

Operands operands_of(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                     const VocabularyPart& part) {
  return {
      .rows = args.logits.rows,
      .columns = args.logits.columns,
      .stride = args.logits.row_stride,
      .first = part.first,
      .vocabulary = part.vocabulary,
      .grad_scale = args.grad_scale,
      .loss_scale = args.loss_scale,
      .softcap = args.softcap,
      .targets = elements<const int32_t>(args.targets),
      .row_weights = args.row_weights.defined() ? elements<const float>(args.row_weights) : nullptr,
      .losses = elements<float>(args.losses),
      .flags = DeviceFlags(stream).word()};
}

template <class T>
T* logits_of(const SoftmaxCrossEntropyArgs& args) {
  return elements<T>(args.logits.tensor) + args.logits.offset;
}

template <class T>
cuda::LaunchShape shape_for_rows_of(int64_t rows, int64_t columns) {
  const int64_t packs = columns / Row<T>::kPack + 1;
  const int64_t warps = (packs + cuda::kWarp - 1) / cuda::kWarp;
  const int threads =
      cuda::kWarp * static_cast<int>(std::min<int64_t>(warps, kMostThreads / cuda::kWarp));
  return cuda::shape_for(rows * threads, threads);
}

}  // namespace

void softmax_cross_entropy_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args) {
  constexpr std::string_view kName = "softmax_cross_entropy";
  const Operands o = operands_of(stream, args, {.vocabulary = args.logits.columns});
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    const cuda::LaunchShape shape = shape_for_rows_of<T>(o.rows, o.columns);
    T* const logits = logits_of<T>(args);
    if (!args.gradients) return cuda::launch(kName, loss_kernel<T>, shape, stream, o, logits);
    on_float(*args.gradients, [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        cuda::launch(
            kName,
            o.softcap > 0 ? gradient_kernel<Cap::kSoft, T, G> : gradient_kernel<Cap::kNone, T, G>,
            shape, stream, o, logits);
      }
    });
  });
}

void softmax_part_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                       const VocabularyPart& part, Tensor& numbers) {
  const Operands o = operands_of(stream, args, part);
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    cuda::launch("softmax_part", part_kernel<T>, shape_for_rows_of<T>(o.rows, o.columns), stream, o,
                 logits_of<T>(args), elements<float>(numbers));
  });
}

void softmax_cross_entropy_of_parts_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                         const VocabularyPart& part, const Tensor& numbers) {
  constexpr std::string_view kName = "softmax_cross_entropy_of_parts";
  const Operands o = operands_of(stream, args, part);
  if (o.rows == 0) return;
  const auto ranks = static_cast<int>(numbers.numel() / (o.rows * kNumbersOfPart));
  const auto* const of_parts = elements<const float>(numbers);
  cuda::launch(kName, losses_of_parts_kernel, cuda::shape_for(o.rows), stream, o, of_parts, ranks);
  if (!args.gradients) return;
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    on_float(*args.gradients, [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        cuda::launch(kName,
                     o.softcap > 0 ? gradients_of_parts_kernel<Cap::kSoft, T, G>
                                   : gradients_of_parts_kernel<Cap::kNone, T, G>,
                     shape_for_rows_of<T>(o.rows, o.columns), stream, o, logits_of<T>(args),
                     of_parts, ranks);
      }
    });
  });
}

}  // namespace ds::kernels::detail
