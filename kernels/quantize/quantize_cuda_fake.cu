// Fake quantization on CUDA devices.
#include "core/device/dispatch.h"
#include "kernels/cuda/uniforms.cuh"
#include "kernels/quantize/groups.cuh"
#include "kernels/quantize/quantize_cuda.h"

namespace ds::kernels::detail {
namespace {

constexpr std::string_view kName = "fake_quantize";

struct SetScale {
  QuantScheme scheme;
  int bits;
  FakeScale* scales;
  __device__ void operator()(int64_t group, Range range) const {
    scales[group] = fake_scale_of(scheme, bits, range);
  }
};
struct SetThreshold {
  FakeMagnitude* levels;
  __device__ void operator()(int64_t group, Magnitudes all) const {
    levels[group] = {ternary_threshold(all), 0.0F};
  }
};
struct SetTernary {
  FakeMagnitude* levels;
  __device__ void operator()(int64_t group, Magnitudes above) const {
    levels[group] = ternary_of(levels[group].threshold, above);
  }
};
struct SetBinary {
  FakeMagnitude* levels;
  __device__ void operator()(int64_t group, Magnitudes all) const {
    levels[group] = binary_of(all);
  }
};

__global__ void set_scale_kernel(SetScale set, Range range) {
  if (threadIdx.x == 0) set(0, range);
}

// Rounds on the way, with the random numbers of the places of the numbers where kNoisy.
template <bool kNoisy, class T>
struct ScaleSink {
  cuda::NumberSink<T> to;
  const FakeScale* scales;
  int64_t group_size;
  Rng rng;

  bool has_packs() const { return to.has_packs(); }
  template <int N>
  __device__ void write(int64_t first, int64_t end, const float* x) const {
    cuda::Uniforms uniforms(rng, static_cast<uint64_t>(first));
    const int64_t group = first / group_size;
    float y[N] = {};
    for (int i = 0; i < N; ++i) {
      if (N != cuda::kWide && first + i >= end) continue;
      const FakeScale scale = scales[N == cuda::kWide ? group : (first + i) / group_size];
      const float noise = kNoisy ? uniforms.at(static_cast<uint64_t>(first + i)) - 0.5F : 0.0F;
      y[i] = fake_quantized(scale, x[i], noise);
    }
    to.template write<N>(first, end, y);
  }
};

template <class T>
struct MagnitudeSink {
  cuda::NumberSink<T> to;
  const FakeMagnitude* levels;
  int64_t group_size;

  bool has_packs() const { return to.has_packs(); }
  template <int N>
  __device__ void write(int64_t first, int64_t end, const float* x) const {
    const int64_t group = first / group_size;
    float y[N] = {};
    for (int i = 0; i < N; ++i) {
      if (N != cuda::kWide && first + i >= end) continue;
      y[i] = fake_quantized(levels[N == cuda::kWide ? group : (first + i) / group_size], x[i]);
    }
    to.template write<N>(first, end, y);
  }
};

template <class T>
void by_scale(Stream& stream, const FakeOperands& o, const cuda::NumberSource<T>& from,
              const cuda::NumberSink<T>& to) {
  const SetScale set{o.how.scheme, o.how.bits, o.scales};
  if (o.how.static_range) {
    cuda::launch(kName, set_scale_kernel, {.blocks = 1, .threads = cuda::kWarp}, stream, set,
                 Range{o.how.static_range->first, o.how.static_range->second});
  } else {
    cuda::for_groups(kName, stream, o.parts, from, cuda::RangeOf{}, o.ranges, set);
  }
  const int64_t numel = o.x.numel(), size = o.parts.size;
  if (o.how.stochastic != nullptr) {
    cuda::convert(kName, stream, numel, size, from,
                  ScaleSink<true, T>{to, o.scales, size, *o.how.stochastic});
  } else {
    cuda::convert(kName, stream, numel, size, from,
                  ScaleSink<false, T>{to, o.scales, size, Rng(0, "")});
  }
}

template <class T>
void by_magnitude(Stream& stream, const FakeOperands& o, const cuda::NumberSource<T>& from,
                  const cuda::NumberSink<T>& to) {
  const cuda::MagnitudeOf all{.levels = nullptr}, above{.levels = o.levels};
  if (o.how.scheme == QuantScheme::kBinary) {
    cuda::for_groups(kName, stream, o.parts, from, all, o.magnitudes, SetBinary{o.levels});
  } else {
    cuda::for_groups(kName, stream, o.parts, from, all, o.magnitudes, SetThreshold{o.levels});
    cuda::for_groups(kName, stream, o.parts, from, above, o.magnitudes, SetTernary{o.levels});
  }
  cuda::convert(kName, stream, o.x.numel(), o.parts.size, from,
                MagnitudeSink<T>{to, o.levels, o.parts.size});
}

}  // namespace

void fake_quantize_cuda(Stream& stream, const FakeOperands& o) {
  on_float(o.x.dtype(), [&]<class T>() {
    const cuda::NumberSource<T> from{cuda::elements<const T>(o.x)};
    const cuda::NumberSink<T> to{cuda::elements<T>(o.y)};
    o.how.by_magnitude() ? by_magnitude(stream, o, from, to) : by_scale(stream, o, from, to);
  });
}

}  // namespace ds::kernels::detail
