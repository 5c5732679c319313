// Rows of logits on CUDA devices, for the sources of kernels/softmax. A block takes a row at a
// time. Rows may begin anywhere: accesses are packs from one 16-byte border to the next, and only
// what of a row lies before its first border and behind its last is read and written singly. So the
// order of a row's sum depends on its length and on where it begins between two borders.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/front/row_weight.h"
#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels::detail {

// Long rows get large blocks: the fewer rows are under way, the more of them are still in the cache
// when their second pass comes. With 1024 threads there would be too few registers.
inline constexpr int kMostLogitThreads = 512;
inline constexpr int kLogitsAhead = 2;  // packs that a thread reads before it uses the first
inline constexpr float kLog2E = 1.44269504F;

struct LogitOperands {
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
struct LogitRow {
  static constexpr int kPack = cuda::kPackOf<T>;
  T* logits;
  int64_t columns;
  int lead;  // elements from the border to the row's first

  __device__ LogitRow(T* begin, int64_t count)
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
__device__ void read_logits(const LogitRow<T>& row, int64_t first, float* values) {
  constexpr int kPack = LogitRow<T>::kPack;
  if (row.is_whole(first)) {
    const cuda::Pack<T, kPack> pack = cuda::load<kPack>(static_cast<const T*>(row.logits) + first);
    for (int i = 0; i < kPack; ++i) values[i] = static_cast<float>(pack.values[i]);
  } else {
    for (int i = 0; i < kPack; ++i) {
      values[i] = row.has(first + i) ? static_cast<float>(row.logits[first + i]) : -INFINITY;
    }
  }
}

template <class G, class T>
__device__ void write_logits(const float* values, const LogitRow<T>& row, int64_t first) {
  constexpr int kPack = LogitRow<T>::kPack;
  G* const grad = reinterpret_cast<G*>(row.logits);
  const bool is_aligned = sizeof(G) == sizeof(T) || row.lead == 0;
  if (is_aligned && row.is_whole(first)) {
    cuda::Pack<G, kPack> pack;
    for (int i = 0; i < kPack; ++i) pack.values[i] = static_cast<G>(values[i]);
    cuda::store(pack, grad + first);
  } else {
    for (int i = 0; i < kPack; ++i) {
      if (row.has(first + i)) grad[first + i] = static_cast<G>(values[i]);
    }
  }
}

// e^x to 2 ulp.
__device__ inline float exponential(float x) { return exp2f(x * kLog2E); }

// It is read again where it is used: kept through the passes over a row, it would cost a register
// too many.
__device__ inline float weight_of(const LogitOperands& o, int64_t row) {
  return row_weight(o.targets[row], o.row_weights, row);
}

// The loss of a row without a target that exists, or without weight, and what its gradients are.
__device__ inline float write_no_loss(const LogitOperands& o, int64_t row) {
  const bool is_ignored = o.targets[row] < o.vocabulary;
  const float loss = is_ignored ? 0.0F : NAN;
  if (threadIdx.x == 0) {
    o.losses[row] = loss;
    if (!is_ignored) cuda::set_flag(DeviceFlag::kTargetOutsideVocabulary, o.flags);
  }
  return loss;
}

template <class G, class T>
__device__ void fill_gradients(const LogitRow<T>& row, float value) {
  float values[LogitRow<T>::kPack];
  for (float& each : values) each = value;
  for (int64_t p = threadIdx.x; p < row.packs(); p += blockDim.x) {
    write_logits<G>(values, row, row.first(p));
  }
}

inline LogitOperands logit_operands_of(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                       const VocabularyPart& part) {
  return {.rows = args.logits.rows,
          .columns = args.logits.columns,
          .stride = args.logits.row_stride,
          .first = part.first,
          .vocabulary = part.vocabulary,
          .grad_scale = args.grad_scale,
          .loss_scale = args.loss_scale,
          .softcap = args.softcap,
          .targets = cuda::elements<const int32_t>(args.targets),
          .row_weights =
              args.row_weights.defined() ? cuda::elements<const float>(args.row_weights) : nullptr,
          .losses = cuda::elements<float>(args.losses),
          .flags = DeviceFlags(stream).word()};
}

template <class T>
T* logits_of(const SoftmaxCrossEntropyArgs& args) {
  return cuda::elements<T>(args.logits.tensor) + args.logits.offset;
}

template <class T>
cuda::LaunchShape shape_for_logits(int64_t rows, int64_t columns) {
  const int64_t packs = columns / LogitRow<T>::kPack + 1;
  const int64_t warps = (packs + cuda::kWarp - 1) / cuda::kWarp;
  const int threads =
      cuda::kWarp * static_cast<int>(std::min<int64_t>(warps, kMostLogitThreads / cuda::kWarp));
  return cuda::shape_for(rows * threads, threads);
}

}  // namespace ds::kernels::detail
