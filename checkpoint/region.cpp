// Regions of tensors as runs of consecutive elements.
#include "checkpoint/format.h"
#include "core/error.h"

namespace ds {

int64_t Region::numel() const {
  int64_t product = 1;
  for (size_t axis = 0; axis < begin.size(); ++axis) product *= end[axis] - begin[axis];
  return product;
}

std::vector<Run> runs_of(const Region& region, const Shape& shape) {
  const size_t axes = region.begin.size();
  DS_CHECK(axes == region.end.size() && axes >= 1, "region: {} begins, {} ends", axes,
           region.end.size());
  if (axes == 1) {
    DS_CHECK(
        region.begin[0] >= 0 && region.begin[0] <= region.end[0] && region.end[0] <= shape.numel(),
        "region: elements [{}, {}) of shape {}", region.begin[0], region.end[0], shape.to_string());
    if (region.begin[0] == region.end[0]) return {};
    return {{region.begin[0], region.end[0] - region.begin[0], 0}};
  }
  DS_CHECK(static_cast<int>(axes) == shape.rank(), "region: {} axes for shape {}", axes,
           shape.to_string());
  for (size_t axis = 0; axis < axes; ++axis) {
    DS_CHECK(region.begin[axis] >= 0 && region.begin[axis] <= region.end[axis] &&
                 region.end[axis] <= shape.extents()[axis],
             "region: [{}, {}) on axis {} of shape {}", region.begin[axis], region.end[axis], axis,
             shape.to_string());
  }
  const int64_t total = region.numel();
  if (total == 0) return {};
  // Axes after `inner` are whole, so one run spans the box's extent on `inner` and everything after
  // it.
  size_t inner = axes - 1;
  int64_t stride = 1;  // elements per step on `inner`
  while (inner > 0 && region.begin[inner] == 0 && region.end[inner] == shape.extents()[inner]) {
    stride *= shape.extents()[inner];
    --inner;
  }
  const int64_t length = (region.end[inner] - region.begin[inner]) * stride;
  std::vector<Run> runs;
  std::vector<int64_t> at(region.begin.begin(),
                          region.begin.begin() + static_cast<ptrdiff_t>(inner));
  for (int64_t inside = 0; inside < total; inside += length) {
    int64_t first = 0;
    for (size_t axis = 0; axis < inner; ++axis) first = first * shape.extents()[axis] + at[axis];
    first = (first * shape.extents()[inner] + region.begin[inner]) * stride;
    runs.push_back({first, length, inside});
    for (size_t axis = inner; axis-- > 0;) {  // the next row, as an odometer counts
      if (++at[axis] < region.end[axis]) break;
      at[axis] = region.begin[axis];
    }
  }
  return runs;
}

}  // namespace ds
