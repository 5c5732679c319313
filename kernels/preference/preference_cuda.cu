// Losses of preferences on CUDA devices: a block takes a sample at a time, whose rows its threads
// go along, and their sums are added in an order that is always the same.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/preference/preference_cuda.h"
#include "kernels/preference/preference_formula.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct Rows {
  int64_t samples, length;
  const int32_t* targets;
  const int32_t* sides;
};
Rows rows_of(const Tensor& sums, const Tensor& targets, const Tensor& sides) {
  const int64_t samples = sums.shape()[0];
  return {.samples = samples,
          .length = targets.numel() / samples,
          .targets = elements<const int32_t>(targets),
          .sides = elements<const int32_t>(sides)};
}

__global__ void preference_sums_kernel(Rows rows, const float* losses, double* sums) {
  for (int64_t sample = blockIdx.x; sample < rows.samples; sample += gridDim.x) {
    double own[kPreferenceSums] = {};
    const int64_t end = (sample + 1) * rows.length;
    for (int64_t row = sample * rows.length + threadIdx.x; row < end; row += blockDim.x) {
      add_row(own, rows.targets[row], rows.sides[row], losses[row]);
    }
    DS_UNROLL
    for (int k = 0; k < kPreferenceSums; ++k) {
      const double sum = cuda::block_sum(own[k]);
      if (threadIdx.x == 0) sums[sample * kPreferenceSums + k] = sum;
    }
  }
}

struct Results {
  float* losses;
  float* figures;
  float* weights;
};

// All blocks find the same of their micro-batch, since counts are whole numbers.
__device__ double block_likely_tokens(const double* sums, int64_t samples) {
  double own = 0;
  for (int64_t sample = threadIdx.x; sample < samples; sample += blockDim.x) {
    own += likely_tokens(sums + sample * kPreferenceSums);
  }
  return cuda::block_sum(own);
}

// All threads of a block work out the loss of its sample, so none waits for another.
__global__ void preference_loss_kernel(PreferenceRule rule, Rows rows, const double* sums,
                                       const double* reference, Results to) {
  const double likelihood =
      likelihood_of_token(rule, rows.samples, block_likely_tokens(sums, rows.samples));
  for (int64_t sample = blockIdx.x; sample < rows.samples; sample += gridDim.x) {
    const double* const of_pair = reference == nullptr ? nullptr : reference + sample * 2;
    const SampleLoss one = sample_loss(rule, sums + sample * kPreferenceSums, of_pair, likelihood);
    if (threadIdx.x == 0) write_sample(one, sample, rows.samples, to.losses, to.figures);
    if (to.weights == nullptr) continue;
    const int64_t end = (sample + 1) * rows.length;
    for (int64_t row = sample * rows.length + threadIdx.x; row < end; row += blockDim.x) {
      to.weights[row] = row_weight(one, rows.targets[row], rows.sides[row]);
    }
  }
}

}  // namespace

void preference_sums_cuda(Stream& stream, const PreferenceSumsArgs& args) {
  const Rows rows = rows_of(args.sums, args.targets, args.sides);
  cuda::launch("preference_sums", preference_sums_kernel,
               cuda::shape_for_rows(rows.samples, rows.length), stream, rows,
               elements<const float>(args.losses), elements<double>(args.sums));
}

void preference_loss_cuda(Stream& stream, const PreferenceLossArgs& args) {
  const Rows rows = rows_of(args.sums, args.targets, args.sides);
  const Results results{.losses = elements<float>(args.losses),
                        .figures = elements<float>(args.figures),
                        .weights = elements<float>(args.row_weights)};
  cuda::launch("preference_loss", preference_loss_kernel,
               cuda::shape_for_rows(rows.samples, rows.length), stream, args.rule, rows,
               elements<const double>(args.sums), elements<const double>(args.reference), results);
}

}  // namespace ds::kernels::detail
