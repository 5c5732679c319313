// Copies of runs on the CPU: one copy of bytes a run, shared out among the stream's threads.
#include "kernels/elementwise/runs_cpu.h"

#include <algorithm>
#include <cstring>

#include "core/tasks/thread_pool.h"
#include "core/values/index.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kGrain = 4096;  // elements: a thread's share is never smaller than a few pages

}  // namespace

void copy_runs_cpu(Stream& stream, const RunGrid& grid, const Tensor& from,
                   const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places) {
  const size_t size = size_of(to.dtype());
  const auto* const source = static_cast<const std::byte*>(from.raw());
  auto* const target = static_cast<std::byte*>(to.raw());
  const auto byte_of = [size](const RunPlaces& places, int64_t outer, int64_t inner) {
    return to_size(places.first + outer * places.outer + inner * places.inner) * size;
  };
  const int64_t grain = std::max<int64_t>(1, kGrain / grid.numel);
  stream.pool().parallel_for(grid.outer * grid.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t outer = run / grid.inner;
      const int64_t inner = run % grid.inner;
      std::memcpy(target + byte_of(to_places, outer, inner),
                  source + byte_of(from_places, outer, inner), to_size(grid.numel) * size);
    }
  });
}

}  // namespace ds::kernels::detail
