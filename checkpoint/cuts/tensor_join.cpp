#include "checkpoint/cuts/tensor_join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

// Extents may be what a file says and no tensor has.
int64_t product(std::span<const int64_t> extents) {
  int64_t all = 1;
  for (const int64_t extent : extents) {
    if (__builtin_mul_overflow(all, extent, &all)) {
      throw DataError(fmt::format("[{}] is too large", fmt::join(extents, ", ")));
    }
  }
  return all;
}

std::string words_of(std::span<const Extents> shapes) {
  std::vector<std::string> words;
  for (const Extents& shape : shapes) words.push_back(fmt::format("[{}]", fmt::join(shape, ", ")));
  return fmt::format("{}", fmt::join(words, " and "));
}

[[noreturn]] void refuse(std::span<const Extents> shapes, std::string_view why) {
  throw DataError(fmt::format("its ranks have the shapes {}, {}", words_of(shapes), why));
}

// The shape with its extent below 0 replaced by what `numel` elements leave for it.
Extents resolved(Extents view, int64_t numel, std::span<const Extents> shapes) {
  const auto open = std::ranges::find_if(view, [](int64_t extent) { return extent < 0; });
  if (open == view.end()) return view;
  *open = 1;
  const int64_t known = product(view);
  const bool fits = std::ranges::none_of(view, [](int64_t extent) { return extent < 0; }) &&
                    known > 0 && numel % known == 0;
  if (!fits) refuse(shapes, fmt::format("which are no views of [{}]", fmt::join(view, ", ")));
  *open = numel / known;
  return view;
}

// All ranks have all of a tensor of this shape.
TensorJoin same_on_all(const Extents& shape, size_t ranks) {
  TensorJoin join{.shape = shape, .inner = 1, .extents = Extents(ranks, product(shape))};
  JoinedRun& run = join.runs.emplace_back(JoinedRun{.numel = product(shape)});
  for (size_t r = 0; r < ranks; ++r) run.holders.push_back({.rank = r, .first = 0});
  return join;
}

void require_alike(std::span<const Extents> shapes, std::optional<size_t> axis) {
  const Extents& first = shapes.front();
  for (const Extents& shape : shapes) {
    bool alike = shape.size() == first.size();
    for (size_t i = 0; alike && i < shape.size(); ++i) {
      alike = i == axis || shape[i] == first[i];
    }
    if (alike) continue;
    refuse(shapes, axis ? fmt::format("which cannot be joined along axis {}", *axis)
                        : std::string("and expected are equal ones"));
  }
}

// What each rank has of each sub-parameter.
std::vector<Extents> widths_of(const CutRule& rule, std::span<const Extents> shapes, size_t axis) {
  if (!rule.widths.empty()) return rule.widths;
  const int64_t ranks = std::ssize(shapes);
  if (!rule.sizes.empty()) {
    std::vector<Extents> widths;
    for (const int64_t size : rule.sizes) {
      if (size < 0 || size % ranks != 0) {
        refuse(shapes, fmt::format("and cannot share {} evenly, as sub-parameters of [{}] are",
                                   size, fmt::join(rule.sizes, ", ")));
      }
      widths.emplace_back(shapes.size(), size / ranks);
    }
    return widths;
  }
  if (rule.equal_parts < 1) refuse(shapes, "of no sub-parameters");
  for (const Extents& shape : shapes) {
    if (shape[axis] >= rule.equal_parts && shape[axis] % rule.equal_parts == 0) continue;
    refuse(shapes, fmt::format("which are no {} equal sub-parameters", rule.equal_parts));
  }
  std::vector<Extents> widths(to_size(rule.equal_parts));
  for (const Extents& shape : shapes) {
    for (Extents& part : widths) part.push_back(shape[axis] / rule.equal_parts);
  }
  return widths;
}

// The ranks' shapes as the rule sees them.
std::vector<Extents> viewed(const CutRule& rule, std::span<const Extents> shapes) {
  std::vector<Extents> views(shapes.begin(), shapes.end());
  if (rule.view.empty()) return views;
  const size_t axis = to_size(rule.axis);
  if (axis >= rule.view.size()) refuse(shapes, "which have no such axis");
  int64_t all = 0;
  for (const Extents& shape : shapes) all += product(shape);
  Extents whole = rule.view;
  whole[axis] = std::accumulate(rule.sizes.begin(), rule.sizes.end(), int64_t{0});
  for (const Extents& part : rule.widths) {
    whole[axis] += std::accumulate(part.begin(), part.end(), int64_t{0});
  }
  if (rule.sizes.empty() && rule.widths.empty()) {
    for (const Extents& shape : shapes) whole[axis] += axis < shape.size() ? shape[axis] : 0;
  }
  whole = resolved(std::move(whole), all, shapes);
  const int64_t inner = product(std::span(whole).subspan(axis + 1));
  const int64_t outer = product(std::span(whole).first(axis));
  for (Extents& view : views) {
    const int64_t numel = product(view);
    if (outer * inner == 0 || numel % (outer * inner) != 0) {
      refuse(shapes, fmt::format("which are no parts of [{}]", fmt::join(whole, ", ")));
    }
    view = whole;
    view[axis] = numel / (outer * inner);
  }
  return views;
}

void drop_padding(TensorJoin& join, int64_t rows) {
  if (join.shape.empty() || rows < 0 || rows > join.shape.front()) {
    throw DataError(fmt::format("its ranks have [{}] together, fewer than {} rows",
                                fmt::join(join.shape, ", "), rows));
  }
  int64_t left =
      rows * (product(join.shape) / std::max<int64_t>(join.shape.front(), 1) / join.inner);
  join.shape.front() = rows;
  for (JoinedRun& run : join.runs) {
    run.numel = std::min(run.numel, left);
    left -= run.numel;
  }
  std::erase_if(join.runs, [](const JoinedRun& run) { return run.numel == 0; });
}

TensorJoin join_along(const CutRule& rule, std::span<const Extents> shapes) {
  const std::vector<Extents> views = viewed(rule, shapes);
  const size_t axis = to_size(rule.axis);
  if (axis >= views.front().size()) refuse(shapes, "which have no such axis");
  require_alike(views, axis);
  const std::vector<Extents> widths = widths_of(rule, views, axis);
  TensorJoin join{.shape = views.front(),
                  .inner = product(std::span(views.front()).subspan(axis + 1))};
  for (const Extents& view : views) join.extents.push_back(view[axis]);
  Extents used(views.size());
  int64_t whole = 0;
  for (const Extents& part : widths) {
    if (part.size() != views.size()) {
      refuse(shapes, fmt::format("and a sub-parameter is cut over {} ranks", part.size()));
    }
    for (size_t r = 0; r < part.size(); ++r) {
      if (part[r] > 0) {
        join.runs.push_back({.numel = part[r], .holders = {{.rank = r, .first = used[r]}}});
      }
      used[r] += part[r];
      whole += part[r];
    }
  }
  if (used != join.extents) {
    refuse(shapes, fmt::format("of which the sub-parameters have {}", fmt::join(used, " and ")));
  }
  join.shape[axis] = whole;
  return join;
}

}  // namespace

TensorJoin join_of(const CutRule& rule, std::span<const Extents> shapes) {
  DS_CHECK(!shapes.empty(), "join: no rank's shape given");
  if (rule.kind == CutRule::Kind::kCut) {
    TensorJoin join = join_along(rule, shapes);
    // Rows are counted along the first axis, which is that of the cut.
    if (rule.rows) {
      if (rule.axis != 0) refuse(shapes, "and padded rows that are not cut are not known");
      drop_padding(join, *rule.rows);
    }
    return join;
  }
  require_alike(shapes, std::nullopt);
  TensorJoin join = same_on_all(shapes.front(), shapes.size());
  join.is_mean = rule.kind == CutRule::Kind::kMean;
  if (rule.rows) drop_padding(join, *rule.rows);
  return join;
}

// --- the cuts of a family

namespace {

// The one axis that some rank has ranges of, with them; nothing where all have everything.
std::optional<size_t> axis_of(const FamilyCut& cut) {
  std::optional<size_t> axis;
  for (const Cut& own : cut.ranks) {
    for (size_t i = 0; i < own.axes.size(); ++i) {
      if (own.axes[i] == std::vector<Range>{{0, cut.whole[narrow<int>(i)]}}) continue;
      DS_CHECK(!axis || *axis == i, "join: a tensor that is cut along axes {} and {}", *axis, i);
      axis = i;
    }
  }
  return axis;
}

Extents extents_of(const Shape& shape) {
  Extents extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

// Ranges of all ranks along the axis, in order; those that several have are of several holders.
std::vector<JoinedRun> runs_along(const FamilyCut& cut, size_t axis) {
  std::map<int64_t, JoinedRun> runs;
  for (size_t r = 0; r < cut.ranks.size(); ++r) {
    int64_t first = 0;
    for (const Range& range : nth(cut.ranks, r).axes[axis]) {
      JoinedRun& run = runs[range.begin];
      DS_CHECK(run.holders.empty() || run.numel == range.numel(),
               "join: ranks with overlapping ranges");
      run.numel = range.numel();
      run.holders.push_back({.rank = r, .first = first});
      first += range.numel();
    }
  }
  int64_t end = 0;
  std::vector<JoinedRun> ordered;
  for (auto& [begin, run] : runs) {
    DS_CHECK(begin == end, "join: ranges that leave {} to {} out", end, begin);
    end += run.numel;
    ordered.push_back(std::move(run));
  }
  DS_CHECK(end == cut.whole[narrow<int>(axis)], "join: ranges that end at {}", end);
  return ordered;
}

bool has_shapes(const FamilyCut& cut, std::span<const Extents> shapes) {
  for (size_t r = 0; r < shapes.size(); ++r) {
    const Cut& own = nth(cut.ranks, r);
    if (extents_of(own.is_whole() ? cut.whole : own.shape_in(cut.whole)) != shapes[r]) return false;
  }
  return true;
}

// Whether no rank has several ranges.
bool is_plain(const FamilyCut& cut) {
  return std::ranges::all_of(cut.ranks, [](const Cut& own) {
    return std::ranges::all_of(own.axes, [](const auto& ranges) { return ranges.size() == 1; });
  });
}

}  // namespace

TensorJoin join_of(const FamilyCut& cut, std::span<const Extents> shapes) {
  DS_CHECK(shapes.size() == cut.ranks.size(), "join: {} shapes for {} ranks", shapes.size(),
           cut.ranks.size());
  const Extents whole = extents_of(cut.whole);
  const bool all_whole =
      std::ranges::all_of(shapes, [&](const Extents& shape) { return shape == whole; });
  if (all_whole) return same_on_all(whole, shapes.size());
  const std::optional<size_t> axis = axis_of(cut);
  if (axis && has_shapes(cut, shapes)) {
    TensorJoin join{.shape = whole, .inner = product(std::span(whole).subspan(*axis + 1))};
    for (const Extents& shape : shapes) join.extents.push_back(shape[*axis]);
    join.runs = runs_along(cut, *axis);
    return join;
  }
  if (axis && is_plain(cut)) {
    const TensorJoin join =
        join_of(CutRule{.axis = narrow<int64_t>(*axis),
                        .rows = cut.is_vocabulary ? std::optional(whole.front()) : std::nullopt},
                shapes);
    if (join.shape == whole) return join;
  }
  refuse(shapes, fmt::format("which are not how one of [{}] is cut", fmt::join(whole, ", ")));
}

// --- reading

JoinedPiece piece_at(const TensorJoin& join, int64_t at) {
  int64_t along = 0;
  for (const JoinedRun& run : join.runs) along += run.numel;
  const int64_t row = along * join.inner;
  DS_CHECK(at >= 0 && row > 0, "join: element {} of none", at);
  int64_t inside = at % row;
  for (const JoinedRun& run : join.runs) {
    const int64_t numel = run.numel * join.inner;
    if (inside < numel) {
      return {.holders = run.holders, .offset = inside, .outer = at / row, .numel = numel - inside};
    }
    inside -= numel;
  }
  throw InternalError(fmt::format("join: element {} is in no run", at));
}

int64_t first_of(const TensorJoin& join, const JoinedPiece& piece,
                 const JoinedRun::Holder& holder) {
  const int64_t own = join.extents[holder.rank];
  return (piece.outer * own + holder.first) * join.inner + piece.offset;
}

}  // namespace ds::deepspeed
