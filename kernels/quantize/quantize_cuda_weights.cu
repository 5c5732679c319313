// Weights in groups along an axis on CUDA devices. Along rows a group is a run of numbers; down
// columns a thread takes a group, beside those of its neighbours.
#include "core/device/dispatch.h"
#include "kernels/quantize/groups.cuh"
#include "kernels/quantize/quantize_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::kWide;

struct SetScale {
  LevelsView view;
  __device__ void operator()(int64_t group, Range range) const {
    view.set_scale(group, group_scale_of(view.how.bits, range));
  }
};

template <class T>
__global__ void column_scales_kernel(const T* x, SetScale set) {
  const GroupQuant& how = set.view.how;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t group = begin; group < how.group_count(); group += threads) {
    const int64_t row = group / how.columns * how.group_size, column = group % how.columns;
    Range range;
    for (int64_t r = row; r < row + how.group_size; ++r) {
      const auto value = static_cast<float>(x[r * how.columns + column]);
      range = joined(range, {value, value});
    }
    set(group, range);
  }
}

// Scales of neighbours: of one group, or of the groups of one row.
template <int N>
struct Scales {
  GroupScale of[N];

  __device__ Scales(const LevelsView& view, int64_t first, int64_t end) {
    const GroupQuant& how = view.how;
    const int64_t group = how.group_of(first);
    for (int i = 0; i < N; ++i) {
      of[i] = {1.0F, 0.0F};
      if (N == kWide) {
        of[i] = view.scale_of(how.group_axis == 0 ? group + i : group);
      } else if (first + i < end) {
        of[i] = view.scale_of(how.group_of(first + i));
      }
    }
  }
};

// 4 bits have the levels of a pair in one byte.
template <int N>
__device__ void load_levels(const LevelsView& view, int64_t first, int64_t end, int* levels) {
  const auto* q = static_cast<const uint8_t*>(view.q);
  if (view.how.bits == 4) {
    const auto pack = cuda::load<N / 2>(q + first / 2);
    for (int i = 0; i < N; ++i) levels[i] = nibble(pack.values[i / 2], i % 2 == 0);
  } else if (N == kWide) {
    const auto pack = cuda::load<N>(q + first);
    for (int i = 0; i < N; ++i) levels[i] = pack.values[i];
  } else {
    for (int i = 0; i < N; ++i) levels[i] = first + i < end ? q[first + i] : 0;
  }
}

bool levels_are_packs(const LevelsView& view) {
  return view.how.bits == 4 ? cuda::is_aligned<kWide / 2>(view.q) : cuda::is_aligned<kWide>(view.q);
}

struct LevelSource {
  LevelsView view;

  bool has_packs() const { return levels_are_packs(view); }
  template <int N>
  __device__ void read(int64_t first, int64_t end, float* to) const {
    const Scales<N> scales(view, first, end);
    int levels[N];
    load_levels<N>(view, first, end, levels);
    for (int i = 0; i < N; ++i) to[i] = group_value(scales.of[i], levels[i]);
  }
};

struct LevelSink {
  LevelsView view;

  bool has_packs() const { return levels_are_packs(view); }
  template <int N>
  __device__ void write(int64_t first, int64_t end, const float* x) const {
    const Scales<N> scales(view, first, end);
    const int bits = view.how.bits;
    if (bits == 4) {
      cuda::Pack<uint8_t, N / 2> pack;
      for (int i = 0; i < N; i += 2) {
        pack.values[i / 2] = packed_nibbles(group_level(scales.of[i], bits, x[i]),
                                            group_level(scales.of[i + 1], bits, x[i + 1]));
      }
      cuda::store(pack, view.q + first / 2);
    } else if (N == kWide) {
      cuda::Pack<uint8_t, N> pack;
      for (int i = 0; i < N; ++i) {
        pack.values[i] = static_cast<uint8_t>(group_level(scales.of[i], bits, x[i]));
      }
      cuda::store(pack, view.q + first);
    } else {
      for (int i = 0; i < N && first + i < end; ++i) {
        view.q[first + i] = static_cast<uint8_t>(group_level(scales.of[i], bits, x[i]));
      }
    }
  }
};

// Numbers that lie in one group, or in one row of groups side by side.
int64_t run_of(const GroupQuant& how) { return how.group_axis == 0 ? how.columns : how.group_size; }

}  // namespace

void quantize_groups_cuda(Stream& stream, const Tensor& x, const GroupParts& parts, Range* ranges,
                          const LevelsView& to) {
  constexpr std::string_view kName = "quantize_groups";
  on_float(x.dtype(), [&]<class T>() {
    const cuda::NumberSource<T> from{cuda::elements<const T>(x)};
    if (to.how.group_axis == 0) {
      cuda::launch(kName, column_scales_kernel<T>, cuda::shape_for(to.how.group_count()), stream,
                   from.x, SetScale{to});
    } else {
      cuda::for_groups(kName, stream, parts, from, cuda::RangeOf{}, ranges, SetScale{to});
    }
    cuda::convert(kName, stream, x.numel(), run_of(to.how), from, LevelSink{to});
  });
}

void dequantize_groups_cuda(Stream& stream, const LevelsView& from, const Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    cuda::convert("dequantize_groups", stream, y.numel(), run_of(from.how), LevelSource{from},
                  cuda::NumberSink<T>{cuda::elements<T>(y)});
  });
}

}  // namespace ds::kernels::detail
