// Means over rows on the CPU, sample by sample, shared out among the stream's threads.
#include "kernels/pooling/pooling_cpu.h"

#include <algorithm>

#include "core/device/dispatch.h"
#include "core/tasks/thread_pool.h"
#include "core/values/index.h"
#include "kernels/cpu/scratch.h"

namespace ds::kernels::detail {
namespace {

// Calls work(sample, begin, end) with the rows of each sample that its mean is of, counted over all
// samples.
template <class Work>
void each_sample(Stream& stream, const Tensor& ranges, int64_t length, Work&& work) {
  const auto* const all = ranges.data<int32_t>();
  const int64_t samples = ranges.numel() / (2 * length);
  stream.pool().parallel_for(samples, 1, [&](int64_t first, int64_t last) {
    for (int64_t sample = first; sample < last; ++sample) {
      const int32_t* const range = all + sample * length * 2;
      work(sample, sample * length + range[0], sample * length + range[1]);
    }
  });
}

}  // namespace

void mean_rows_cpu(Stream& stream, const Tensor& x, const Tensor& ranges, int64_t length,
                   Tensor& y) {
  const int64_t width = x.shape()[1];
  on_float(x.dtype(), [&]<class T>() {
    const T* const from = x.data<T>();
    T* const to = y.data<T>();
    each_sample(stream, ranges, length, [&](int64_t sample, int64_t begin, int64_t end) {
      thread_local Scratch scratch;
      float* const sums = scratch.reserve(to_size(width));
      std::fill_n(sums, width, 0.0F);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t c = 0; c < width; ++c) sums[c] += static_cast<float>(from[row * width + c]);
      }
      T* const of_sample = to + sample * length * width;
      std::fill_n(of_sample, length * width, T(0.0F));
      const auto count = static_cast<float>(std::max<int64_t>(end - begin, 1));
      for (int64_t c = 0; c < width; ++c) of_sample[c] = static_cast<T>(sums[c] / count);
    });
  });
}

void mean_rows_backward_cpu(Stream& stream, const Tensor& dy, const Tensor& ranges, int64_t length,
                            Tensor& dx) {
  const int64_t width = dy.shape()[1];
  on_float(dy.dtype(), [&]<class T>() {
    const T* const from = dy.data<T>();
    T* const to = dx.data<T>();
    each_sample(stream, ranges, length, [&](int64_t sample, int64_t begin, int64_t end) {
      const T* const of_mean = from + sample * length * width;
      const auto count = static_cast<float>(std::max<int64_t>(end - begin, 1));
      for (int64_t row = sample * length; row < (sample + 1) * length; ++row) {
        const bool is_in = row >= begin && row < end;
        for (int64_t c = 0; c < width; ++c) {
          to[row * width + c] = static_cast<T>(is_in ? static_cast<float>(of_mean[c]) / count : 0);
        }
      }
    });
  });
}

}  // namespace ds::kernels::detail
