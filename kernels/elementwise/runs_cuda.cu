// Copies of runs on CUDA devices: packs of 16 bytes where all runs consist of them, else elements.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/elementwise/runs_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

template <int N, class T>
__global__ void copy_runs_kernel(RunGrid grid, const T* from, RunPlaces from_places, T* to,
                                 RunPlaces to_places) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = grid.numel / N;
  const int64_t count = grid.outer * grid.inner * packs;
  for (int64_t p = first; p < count; p += threads) {
    const int64_t run = p / packs;
    const int64_t within = p % packs * N;
    const int64_t outer = run / grid.inner;
    const int64_t inner = run % grid.inner;
    const auto at = [&](const RunPlaces& places) {
      return places.first + outer * places.outer + inner * places.inner + within;
    };
    cuda::store(cuda::load<N>(from + at(from_places)), to + at(to_places));
  }
}

template <int N, class T>
bool are_packs(const RunGrid& grid, const RunPlaces& places, const T* data) {
  const bool whole = places.outer % N == 0 && places.inner % N == 0 && grid.numel % N == 0;
  return whole && cuda::is_aligned<N>(data + places.first);
}

}  // namespace

void copy_runs_cuda(Stream& stream, const RunGrid& grid, const Tensor& from,
                    const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places) {
  on_float(to.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* source = elements<const T>(from);
    auto* target = elements<T>(to);
    const bool packed =
        are_packs<kPack>(grid, from_places, source) && are_packs<kPack>(grid, to_places, target);
    const int64_t count = grid.outer * grid.inner * grid.numel;
    cuda::launch("copy_runs", packed ? copy_runs_kernel<kPack, T> : copy_runs_kernel<1, T>,
                 cuda::shape_for(packed ? count / kPack : count), stream, grid, source, from_places,
                 target, to_places);
  });
}

}  // namespace ds::kernels::detail
