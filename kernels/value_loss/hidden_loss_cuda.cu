// Losses of hidden states on CUDA devices: a block takes a row at a time.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/front/loss_scale.h"
#include "kernels/front/row_weight.h"
#include "kernels/value_loss/hidden_loss_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct HiddenOperands {
  int64_t rows, width;
  const int32_t* targets;
  const float* row_weights;  // or null
  float weight;
  float* losses;
  float grad_scale;
  const double* loss_scale;
};

// Rows consist of packs of N numbers.
template <int N, class T, class U>
__global__ void hidden_loss_kernel(HiddenOperands o, const T* student, const U* teacher,
                                   T* slopes) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t row = blockIdx.x; row < o.rows; row += gridDim.x) {
    const float weight = o.weight * row_weight(o.targets[row], o.row_weights, row);
    const float of_number = weight / static_cast<float>(o.width);
    const float gain = 2.0F * scale * of_number;
    float sum = 0;
    for (int64_t c = int64_t{threadIdx.x} * N; c < o.width; c += int64_t{blockDim.x} * N) {
      const int64_t at = row * o.width + c;
      cuda::Pack<T, N> of_student{};
      if (weight != 0) {
        of_student = cuda::load<N>(student + at);
        const cuda::Pack<U, N> of_teacher = cuda::load<N>(teacher + at);
        for (int i = 0; i < N; ++i) {
          const float apart =
              static_cast<float>(of_student.values[i]) - static_cast<float>(of_teacher.values[i]);
          sum += apart * apart;
          of_student.values[i] = static_cast<T>(apart * gain);
        }
      }
      if (slopes != nullptr) cuda::store(of_student, slopes + at);
    }
    sum = cuda::block_sum(sum);
    if (threadIdx.x == 0) o.losses[row] = weight == 0 ? 0.0F : sum * of_number;
  }
}

}  // namespace

void hidden_loss_cuda(Stream& stream, const HiddenLossArgs& args) {
  const int64_t rows = args.student.shape()[0], width = args.student.shape()[1];
  const HiddenOperands o{
      .rows = rows,
      .width = width,
      .targets = elements<const int32_t>(args.targets),
      .row_weights = args.row_weights.defined() ? elements<const float>(args.row_weights) : nullptr,
      .weight = args.weight,
      .losses = elements<float>(args.losses),
      .grad_scale = args.grad_scale,
      .loss_scale = args.loss_scale};
  on_float(args.student.dtype(), [&]<class T>() {
    on_float(args.teacher.dtype(), [&]<class U>() {
      constexpr int kPack = cuda::kPackOf<T, U>;
      const auto* const student = elements<const T>(args.student);
      const auto* const teacher = elements<const U>(args.teacher);
      T* const slopes = args.dstudent.defined() ? elements<T>(args.dstudent) : nullptr;
      if (cuda::rows_are_packs<kPack>(width, student, teacher, static_cast<const T*>(slopes))) {
        cuda::launch("hidden_loss", hidden_loss_kernel<kPack, T, U>,
                     cuda::shape_for_rows(rows, width / kPack), stream, o, student, teacher,
                     slopes);
      } else {
        cuda::launch("hidden_loss", hidden_loss_kernel<1, T, U>, cuda::shape_for_rows(rows, width),
                     stream, o, student, teacher, slopes);
      }
    });
  });
}

}  // namespace ds::kernels::detail
