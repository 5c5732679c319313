// (pure) Which elements of a logical tensor a rank holds. Tensor and expert parallelism cut a
// tensor along its axes, pipeline parallelism leaves whole tensors elsewhere, and ZeRO owns a flat
// range of what is left: a region says all of it, so any layout can be read from any other.
#pragma once

#include <cstdint>
#include <vector>

#include "core/values/shape.h"

namespace ds {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t numel() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// What is kept of a tensor, axis by axis: ranges that ascend and share nothing.
// Several ranges on one axis matter: a packed projection [C, 3C] is cut in three places at once.
struct Cut {
  std::vector<std::vector<Range>> axes;  // one entry per axis; none at all: the whole tensor
  bool is_whole() const { return axes.empty(); }
  // Returns the shape of what is kept. InternalError unless the cut fits the tensor.
  Shape shape_in(const Shape& logical) const;
  bool operator==(const Cut&) const = default;
};

// Elements [within.begin, within.end) of the flattened, row-major cut.
struct Region {
  Cut cut;
  Range within;
  static Region flat(int64_t begin, int64_t end) { return {{}, {begin, end}}; }
  static Region whole(const Shape& logical) { return flat(0, logical.numel()); }
  // All of a cut.
  static Region all_of(Cut cut, const Shape& logical);
  int64_t numel() const { return within.numel(); }
  bool operator==(const Region&) const = default;
};

// InternalError, in words, unless the region lies inside a tensor of this shape.
void require_inside(const Region& region, const Shape& logical);

// A stretch of a region that is contiguous in the whole tensor.
struct Run {
  int64_t first;  // element of the flattened tensor
  int64_t numel;
  int64_t inside;  // element of the flattened region
  bool operator==(const Run&) const = default;
};
// The runs of a region in order, as few as there can be. InternalError unless it lies inside.
std::vector<Run> runs_of(const Region& region, const Shape& logical);

}  // namespace ds
