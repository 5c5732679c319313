#include "zero/layout/state_parts.h"

#include <algorithm>
#include <cmath>

#include "core/status/error.h"
#include "core/values/index.h"
#include "zero/layout/bucket_layout.h"

namespace ds {
namespace {

constexpr int64_t kUnit = BucketLayout::kSliceAlignment;

// Returns where a share of a slice ends.
int64_t end_of(double share, int64_t numel) {
  if (share >= 1) return numel;
  return static_cast<int64_t>(std::floor(share * static_cast<double>(numel))) / kUnit * kUnit;
}

}  // namespace

std::vector<StatePart> state_parts(std::span<const int64_t> slice_numel, const StateShare& share,
                                   int64_t part_numel) {
  DS_CHECK(share.first >= 0 && share.first <= share.last && share.last <= 1,
           "state store parts: the shares {} to {}, expected 0 to 1", share.first, share.last);
  int64_t total = 0;
  for (const int64_t numel : slice_numel) {
    total += end_of(share.last, numel) - end_of(share.first, numel);
  }
  const int64_t shortest = (total / kMostStateParts + kUnit - 1) / kUnit * kUnit;
  const int64_t longest = std::max({kUnit, part_numel / kUnit * kUnit, shortest});
  std::vector<StatePart> parts;
  for (size_t bucket = 0; bucket < slice_numel.size(); ++bucket) {
    const int64_t end = end_of(share.last, slice_numel[bucket]);
    for (int64_t begin = end_of(share.first, slice_numel[bucket]); begin < end;) {
      const int64_t numel = std::min(longest, end - begin);
      parts.push_back({.bucket = narrow<int>(bucket), .begin = begin, .numel = numel});
      begin += numel;
    }
  }
  return parts;
}

std::vector<ShardField> fields_within(std::span<const ShardField> fields, const StatePart& part) {
  std::vector<ShardField> within;
  for (const ShardField& field : fields) {
    const int64_t begin = std::max(field.offset, part.begin);
    const int64_t end = std::min(field.offset + field.numel, part.begin + part.numel);
    if (begin >= end) continue;
    within.push_back({.param = field.param,
                      .param_begin = field.param_begin + begin - field.offset,
                      .numel = end - begin,
                      .offset = begin - part.begin});
  }
  return within;
}

std::string to_string(std::span<const StatePart> parts) {
  std::string text;
  int bucket = -1;
  for (const StatePart& part : parts) {
    if (part.bucket != bucket) {
      text += fmt::format("{}{}:", bucket < 0 ? "" : "; ", part.bucket);
      bucket = part.bucket;
    }
    text += fmt::format(" {}+{}", part.begin, part.numel);
  }
  return text;
}

}  // namespace ds
