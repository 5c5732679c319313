#include "core/values/region.h"

#include <algorithm>
#include <span>

#include "core/status/error.h"

namespace ds {
namespace {

int64_t kept_of(const std::vector<Range>& ranges) {
  int64_t kept = 0;
  for (const Range& range : ranges) kept += range.numel();
  return kept;
}

// A place on one axis of a cut: `inside` elements into `range`. Rows are walked with one of these
// per axis, so that a step costs the same however many ranges an axis keeps.
struct Place {
  size_t range = 0;
  int64_t inside = 0;
};

Place place_of(const std::vector<Range>& ranges, int64_t at) {
  Place place;
  for (; at >= ranges[place.range].numel(); ++place.range) at -= ranges[place.range].numel();
  place.inside = at;
  return place;
}

// Axes after `axis` are whole, so that its ranges are contiguous over all of them: what one step on
// it spans.
struct Inner {
  size_t axis;
  int64_t stride;
};

Inner inner_of(const Cut& cut, const Shape& logical) {
  Inner inner{cut.axes.size() - 1, 1};
  const auto extents = logical.extents();
  while (inner.axis > 0 && cut.axes[inner.axis] == std::vector<Range>{{0, extents[inner.axis]}}) {
    inner.stride *= extents[inner.axis];
    --inner.axis;
  }
  return inner;
}

// The rows of a cut in order: every position on the axes before the inner one.
class Rows {
 public:
  Rows(const Cut& cut, const Shape& logical, size_t inner_axis, int64_t row)
      : axes_(cut.axes), extents_(logical.extents()), places_(inner_axis) {
    for (size_t axis = inner_axis; axis-- > 0;) {
      const int64_t kept = kept_of(axes_[axis]);
      places_[axis] = place_of(axes_[axis], row % kept);
      row /= kept;
    }
  }
  // Which row of the whole tensor this one is.
  int64_t number() const {
    int64_t number = 0;
    for (size_t axis = 0; axis < places_.size(); ++axis) {
      const Place& place = places_[axis];
      number = number * extents_[axis] + axes_[axis][place.range].begin + place.inside;
    }
    return number;
  }
  void advance() {
    for (size_t axis = places_.size(); axis-- > 0;) {
      Place& place = places_[axis];
      if (++place.inside < axes_[axis][place.range].numel()) return;
      place.inside = 0;
      if (++place.range < axes_[axis].size()) return;
      place.range = 0;
    }
  }

 private:
  const std::vector<std::vector<Range>>& axes_;
  std::span<const int64_t> extents_;
  std::vector<Place> places_;
};

void append(std::vector<Run>& runs, const Run& run) {
  if (!runs.empty() && runs.back().first + runs.back().numel == run.first) {
    runs.back().numel += run.numel;
  } else {
    runs.push_back(run);
  }
}

}  // namespace

Shape Cut::shape_in(const Shape& logical) const {
  if (is_whole()) return logical;
  DS_CHECK(narrow<int>(axes.size()) == logical.rank(), "region: a cut of {} axes for shape {}",
           axes.size(), logical.to_string());
  std::vector<int64_t> kept;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    int64_t free = 0;
    for (const Range& range : axes[axis]) {
      DS_CHECK(
          range.begin >= free && range.begin < range.end && range.end <= logical.extents()[axis],
          "region: [{}, {}) on axis {} of shape {}", range.begin, range.end, axis,
          logical.to_string());
      free = range.end;
    }
    kept.push_back(kept_of(axes[axis]));
  }
  return Shape(kept);
}

Region Region::all_of(Cut cut, const Shape& logical) {
  const int64_t numel = cut.shape_in(logical).numel();
  return {std::move(cut), {0, numel}};
}

void require_inside(const Region& region, const Shape& logical) {
  const Shape kept = region.cut.shape_in(logical);
  DS_CHECK(region.within.begin >= 0 && region.within.begin <= region.within.end &&
               region.within.end <= kept.numel(),
           "region: elements [{}, {}) of shape {}", region.within.begin, region.within.end,
           kept.to_string());
}

std::vector<Run> runs_of(const Region& region, const Shape& logical) {
  require_inside(region, logical);
  const Range& within = region.within;
  if (within.numel() == 0) return {};
  if (region.cut.is_whole()) return {{within.begin, within.numel(), 0}};
  const std::vector<std::vector<Range>>& axes = region.cut.axes;
  const auto extents = logical.extents();
  const Inner inner = inner_of(region.cut, logical);
  const int64_t row_numel = kept_of(axes[inner.axis]) * inner.stride;
  std::vector<Run> runs;
  int64_t row = within.begin / row_numel;
  for (Rows rows(region.cut, logical, inner.axis, row); row * row_numel < within.end; ++row) {
    const int64_t start = rows.number() * extents[inner.axis] * inner.stride;
    int64_t at = row * row_numel;  // element of the cut
    for (const Range& range : axes[inner.axis]) {
      const int64_t next = at + range.numel() * inner.stride;
      const int64_t begin = std::max(at, within.begin);
      const int64_t end = std::min(next, within.end);
      if (begin < end) {
        append(runs, {start + range.begin * inner.stride + begin - at, end - begin,
                      begin - within.begin});
      }
      at = next;
    }
    rows.advance();
  }
  return runs;
}

}  // namespace ds
