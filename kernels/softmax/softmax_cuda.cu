// Softmax cross entropy on CUDA devices. A block takes a row at a time: one pass over its logits
// makes their maximum and the sum of their exponentials, a second one writes the gradients over
// them.
#include <cmath>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/front/loss_scale.h"
#include "kernels/softmax/softmax_cuda.h"
#include "kernels/softmax/softmax_rows.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

// Below all logits, and finite: minus infinity less itself would be no number.
constexpr float kLowest = -3.40282347e38F;

// Whether logits were capped, which no register is spent on where they were not.
enum class Cap : uint8_t { kNone, kSoft };

struct Softmax {
  float largest;
  float total;  // of e^(x - largest)
};

// Each thread's total is relative to the largest logit that it has seen so far.
template <class T>
__device__ Softmax softmax_of(const LogitRow<T>& row) {
  constexpr int kCount = kLogitsAhead * LogitRow<T>::kPack;
  const int64_t packs = row.packs();
  const int64_t stride = blockDim.x;
  float largest = kLowest, total = 0;
  for (int64_t p = threadIdx.x; p < packs; p += stride * kLogitsAhead) {
    float x[kCount];
    for (int a = 0; a < kLogitsAhead; ++a) {
      read_logits(row, row.first(p + a * stride), x + a * LogitRow<T>::kPack);
    }
    const float before = largest;
    for (int i = 0; i < kCount; ++i) largest = fmaxf(largest, x[i]);
    total *= exponential(before - largest);
    for (int i = 0; i < kCount; ++i) total += exponential(x[i] - largest);
  }
  const float of_row = cuda::block_reduce(largest, cuda::Larger{}, kLowest);
  return {of_row, cuda::block_sum(total * exponential(largest - of_row))};
}

template <class T>
__device__ Softmax write_loss(const LogitOperands& o, const LogitRow<T>& row, int64_t i) {
  // Before gradients are there.
  const auto at_target = static_cast<float>(row.logits[o.targets[i]]);
  const Softmax softmax = softmax_of(row);
  if (threadIdx.x == 0) {
    o.losses[i] = (logf(softmax.total) + softmax.largest - at_target) * weight_of(o, i);
  }
  return softmax;
}

template <Cap kCap, class G, class T>
__device__ void write_gradients(const LogitRow<T>& row, int64_t target, const Softmax& softmax,
                                float scale, float c) {
  constexpr int kPack = LogitRow<T>::kPack;
  const float gain = scale / softmax.total;
  const int64_t packs = row.packs();
  for (int64_t round = 0; round < packs; round += blockDim.x) {
    const int64_t first = row.first(round + threadIdx.x);
    float x[kPack];
    read_logits(row, first, x);
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
    write_logits<G>(x, row, first);
  }
}

template <class T>
__global__ void __launch_bounds__(kMostLogitThreads) loss_kernel(LogitOperands o, T* logits) {
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const LogitRow<T> row(logits + i * o.stride, o.columns);
    if (weight_of(o, i) != 0 && row.has(o.targets[i])) {
      write_loss(o, row, i);
    } else {
      write_no_loss(o, i);
    }
  }
}

template <Cap kCap, class T, class G>
__global__ void __launch_bounds__(kMostLogitThreads) gradient_kernel(LogitOperands o, T* logits) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const LogitRow<T> row(logits + i * o.stride, o.columns);
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
__global__ void __launch_bounds__(kMostLogitThreads)
    part_kernel(LogitOperands o, T* logits, float* numbers) {
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const int64_t target = o.targets[i];
    const LogitRow<T> row(logits + i * o.stride, o.columns);
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
__global__ void losses_of_parts_kernel(LogitOperands o, const float* numbers, int ranks) {
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
__global__ void __launch_bounds__(kMostLogitThreads)
    gradients_of_parts_kernel(LogitOperands o, T* logits, const float* numbers, int ranks) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const int64_t target = o.targets[i];
    const LogitRow<T> row(logits + i * o.stride, o.columns);
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

}  // namespace

void softmax_cross_entropy_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args) {
  constexpr std::string_view kName = "softmax_cross_entropy";
  const LogitOperands o = logit_operands_of(stream, args, {.vocabulary = args.logits.columns});
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    const cuda::LaunchShape shape = shape_for_logits<T>(o.rows, o.columns);
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
  const LogitOperands o = logit_operands_of(stream, args, part);
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    cuda::launch("softmax_part", part_kernel<T>, shape_for_logits<T>(o.rows, o.columns), stream, o,
                 logits_of<T>(args), elements<float>(numbers));
  });
}

void softmax_cross_entropy_of_parts_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                         const VocabularyPart& part, const Tensor& numbers) {
  constexpr std::string_view kName = "softmax_cross_entropy_of_parts";
  const LogitOperands o = logit_operands_of(stream, args, part);
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
                     shape_for_logits<T>(o.rows, o.columns), stream, o, logits_of<T>(args),
                     of_parts, ranks);
      }
    });
  });
}

}  // namespace ds::kernels::detail
