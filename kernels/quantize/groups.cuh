// Quantizers on CUDA devices come in two steps: a statistic of every group, by a block for each of
// its parts, and one pass that turns the numbers of a source into those of a sink. Both go over
// packs of 8 numbers, which makes accesses of 16 bytes, where groups consist of packs, and
// otherwise singly, or in the pairs that share a byte of codes of 4 bits.
#pragma once

#include <cmath>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/quantize/quantize_operands.h"

namespace ds::cuda {

inline constexpr int kWide = 8;
inline constexpr int kPair = 2;

// Sources: read<N>(first, end, to) reads up to N numbers, and gives 0 for those from `end` on.
template <class T>
struct NumberSource {
  const T* x;

  bool has_packs() const { return is_aligned<kWide>(x); }
  template <int N>
  __device__ void read(int64_t first, int64_t end, float* to) const {
    if constexpr (N == kWide) {
      const Pack<T, N> pack = load<N>(x + first);
      for (int i = 0; i < N; ++i) to[i] = static_cast<float>(pack.values[i]);
    } else {
      for (int i = 0; i < N; ++i) to[i] = first + i < end ? static_cast<float>(x[first + i]) : 0.0F;
    }
  }
};

// Sinks: write<N>(first, end, from).
template <class T>
struct NumberSink {
  T* y;

  bool has_packs() const { return is_aligned<kWide>(y); }
  template <int N>
  __device__ void write(int64_t first, int64_t end, const float* from) const {
    if constexpr (N == kWide) {
      Pack<T, N> pack;
      for (int i = 0; i < N; ++i) pack.values[i] = static_cast<T>(from[i]);
      store(pack, y + first);
    } else {
      for (int i = 0; i < N && first + i < end; ++i) y[first + i] = static_cast<T>(from[i]);
    }
  }
};

template <int N, class Source, class Sink>
__global__ void convert_kernel(int64_t numel, Source source, Sink sink) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t first = begin * N; first < numel; first += threads * N) {
    float numbers[N];
    source.template read<N>(first, numel, numbers);
    sink.template write<N>(first, numel, numbers);
  }
}

// `run`: numbers that follow each other in source and sink, in groups or rows.
template <class Source, class Sink>
void convert(std::string_view name, Stream& stream, int64_t numel, int64_t run, Source source,
             Sink sink) {
  if (run % kWide == 0 && source.has_packs() && sink.has_packs()) {
    launch(name, convert_kernel<kWide, Source, Sink>, shape_for(numel / kWide), stream, numel,
           source, sink);
  } else {
    launch(name, convert_kernel<kPair, Source, Sink>, shape_for((numel + 1) / kPair), stream, numel,
           source, sink);
  }
}

struct Lower {
  __device__ float operator()(float a, float b) const { return kernels::lower(a, b); }
};
struct Higher {
  __device__ float operator()(float a, float b) const { return kernels::higher(a, b); }
};
__device__ inline kernels::Range of_block(kernels::Range of_thread) {
  return {block_reduce(of_thread.low, Lower{}, kernels::Range{}.low),
          block_reduce(of_thread.high, Higher{}, kernels::Range{}.high)};
}
__device__ inline kernels::Magnitudes of_block(kernels::Magnitudes of_thread) {
  return {block_sum(of_thread.sum), block_sum(of_thread.count)};
}

// What a number adds to its group's statistic.
struct RangeOf {
  using Statistic = kernels::Range;
  __device__ RangeOf of_group(int64_t /*group*/) const { return {}; }
  __device__ kernels::Range operator()(float x) const { return {x, x}; }
};
struct MagnitudeOf {
  using Statistic = kernels::Magnitudes;
  const kernels::FakeMagnitude* levels;  // with the thresholds of groups, or null: all count
  float threshold = kernels::kAllMagnitudes;

  __device__ MagnitudeOf of_group(int64_t group) const {
    return {levels, levels == nullptr ? kernels::kAllMagnitudes : levels[group].threshold};
  }
  __device__ kernels::Magnitudes operator()(float x) const {
    return kernels::magnitude_above(threshold, x);
  }
};

template <class Statistic>
struct KeepStatistic {
  Statistic* of_parts;
  __device__ void operator()(int64_t part, Statistic statistic) const {
    of_parts[part] = statistic;
  }
};

template <int N, class Source, class Of, class Use>
__global__ void parts_kernel(kernels::detail::GroupParts parts, Source source, Of of, Use use) {
  for (int64_t part = blockIdx.x; part < parts.count(); part += gridDim.x) {
    const Of of_number = of.of_group(parts.group_of(part));
    const int64_t end = parts.end(part);
    typename Of::Statistic statistic;
    for (int64_t i = parts.begin(part) + int64_t{threadIdx.x} * N; i < end;
         i += int64_t{blockDim.x} * N) {
      float numbers[N];
      source.template read<N>(i, end, numbers);
      for (const float x : numbers) statistic = joined(statistic, of_number(x));
    }
    statistic = of_block(statistic);
    if (threadIdx.x == 0) use(part, statistic);
  }
}

template <class Statistic, class Finish>
__global__ void join_kernel(kernels::detail::GroupParts parts, const Statistic* of_parts,
                            Finish finish) {
  for (int64_t group = blockIdx.x; group < parts.groups; group += gridDim.x) {
    Statistic statistic;
    for (int64_t part = threadIdx.x; part < parts.of_group; part += blockDim.x) {
      statistic = joined(statistic, of_parts[group * parts.of_group + part]);
    }
    statistic = of_block(statistic);
    if (threadIdx.x == 0) finish(group, statistic);
  }
}

// finish(group, statistic), once for every group; `of_parts` has room for one of each part.
template <class Source, class Of, class Finish>
void for_groups(std::string_view name, Stream& stream, const kernels::detail::GroupParts& parts,
                Source source, Of of, typename Of::Statistic* of_parts, Finish finish) {
  const auto run = [&]<class Use>(Use use) {
    const int64_t length = parts.of_group == 1 ? parts.size : parts.part;
    if (parts.size % kWide == 0 && source.has_packs()) {
      launch(name, parts_kernel<kWide, Source, Of, Use>,
             shape_for_rows(parts.count(), length / kWide), stream, parts, source, of, use);
    } else {
      launch(name, parts_kernel<1, Source, Of, Use>, shape_for_rows(parts.count(), length), stream,
             parts, source, of, use);
    }
  };
  if (parts.of_group == 1) return run(finish);
  using Statistic = typename Of::Statistic;
  run(KeepStatistic<Statistic>{of_parts});
  launch(name, join_kernel<Statistic, Finish>, shape_for_rows(parts.groups, parts.of_group), stream,
         parts, static_cast<const Statistic*>(of_parts), finish);
}

}  // namespace ds::cuda
