// The front of copies of runs, see runs.h: where the operands end, and what a copy costs.
#include "kernels/elementwise/runs.h"

#include "core/device/dispatch.h"
#include "kernels/elementwise/runs_cpu.h"
#include "kernels/elementwise/runs_cuda.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

void require(const char* operand, const Stream& stream, const RunGrid& grid, const Tensor& tensor,
             const RunPlaces& places) {
  detail::require_numel("copy_runs", operand, stream, tensor, tensor.numel());
  detail::require_float("copy_runs", operand, tensor);
  const int64_t end =
      places.first + (grid.outer - 1) * places.outer + (grid.inner - 1) * places.inner + grid.numel;
  DS_CHECK(places.first >= 0 && places.outer >= 0 && places.inner >= 0 && end <= tensor.numel(),
           "copy_runs: the last run of {} ends at {}, and it has {} elements", operand, end,
           tensor.numel());
}

}  // namespace

void copy_runs(Stream& stream, const RunGrid& grid, const Tensor& from,
               const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places) {
  DS_CHECK(grid.outer > 0 && grid.inner > 0 && grid.numel > 0, "copy_runs: {} x {} runs of {}",
           grid.outer, grid.inner, grid.numel);
  require("from", stream, grid, from, from_places);
  require("to", stream, grid, to, to_places);
  detail::require_dtype("copy_runs", "from", from, to.dtype());
  const double numel = static_cast<double>(grid.outer * grid.inner * grid.numel);
  stream.report("copy_runs",
                {.flops = 0, .bytes = 2 * numel * static_cast<double>(size_of(to.dtype()))});
  on_device(
      stream, [&](Cpu) { detail::copy_runs_cpu(stream, grid, from, from_places, to, to_places); },
      [&](Cuda) { detail::copy_runs_cuda(stream, grid, from, from_places, to, to_places); });
}

}  // namespace ds::kernels
