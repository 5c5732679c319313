#include "zero/layout/bucket_layout.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

// The largest parameter first, each to the rank that has least, the first of those that have the
// same; within a rank by group of options.
void BucketLayout::place_in_slices(Bucket& bucket, std::span<const LayoutParam> params) const {
  std::vector<std::vector<BucketParam>> of_ranks(to_size(group_size_));
  std::vector<int64_t> loads(to_size(group_size_));
  std::ranges::stable_sort(bucket.params, std::greater(), &BucketParam::numel);
  for (const BucketParam& param : bucket.params) {
    const auto least = std::ranges::min_element(loads);
    nth(of_ranks, least - loads.begin()).push_back(param);
    *least += round_up(param.numel, alignment_);
  }
  const int64_t slice = padded_slice(std::ranges::max(loads));
  bucket.params.clear();
  for (int rank = 0; rank < group_size_; ++rank) {
    auto& mine = nth(of_ranks, rank);
    std::ranges::sort(mine, {}, [&](const BucketParam& at) {
      return std::pair(nth(params, at.param).group, at.param);
    });
    int64_t offset = rank * slice;
    for (BucketParam& at : mine) {
      at.offset = offset;
      offset += round_up(at.numel, alignment_);
      bucket.params.push_back(at);
    }
  }
  bucket.numel = slice * group_size_;
}

// Pads by less than one part in (most_per_run / alignment_).
int64_t BucketLayout::padded_slice(int64_t numel) const {
  if (!most_per_run_) return round_up(numel, alignment_);
  const int64_t runs = std::max<int64_t>((numel + *most_per_run_ - 1) / *most_per_run_, 1);
  return round_up(numel, runs * alignment_);
}

// Whether slices of whole parameters would leave little empty.
bool BucketLayout::is_even(const Bucket& bucket, std::span<const LayoutParam> params) const {
  constexpr int64_t kMostPadding = 16;  // one part in so many
  Bucket placed = bucket;
  place_in_slices(placed, params);
  return (placed.numel - bucket.numel) * kMostPadding <= bucket.numel;
}

void BucketLayout::close(Bucket& bucket, std::span<const LayoutParam> params) {
  if (bucket.params.empty()) return;
  if (slicing_ == Slicing::kWholeParameters) {
    place_in_slices(bucket, params);
  } else {
    // Updates go over neighbours with the same options in one call.
    std::ranges::stable_sort(bucket.params, {},
                             [&](const BucketParam& at) { return nth(params, at.param).group; });
    int64_t offset = 0;
    for (BucketParam& at : bucket.params) {
      at.offset = offset;
      offset += round_up(at.numel, alignment_);
    }
    bucket.numel = group_size_ * padded_slice((bucket.numel + group_size_ - 1) / group_size_);
  }
  for (const BucketParam& at : bucket.params) {
    nth(places_, at.param) = {.bucket = narrow<int>(buckets_.size()), .offset = at.offset};
  }
  const bool persistent = bucket.persistent;
  buckets_.push_back(std::move(bucket));
  bucket = Bucket{.params = {}, .numel = 0, .persistent = persistent};
}

BucketLayout BucketLayout::build(std::span<const LayoutParam> params,
                                 const LayoutOptions& options) {
  DS_CHECK(options.group_size >= 1, "bucket layout: group of {}", options.group_size);
  BucketLayout layout;
  DS_CHECK(options.alignment > 0 && options.alignment % kSliceAlignment == 0,
           "bucket layout: parameters at multiples of {} elements", options.alignment);
  layout.group_size_ = options.group_size;
  layout.alignment_ = options.alignment;
  layout.slicing_ = options.slicing;
  layout.most_per_run_ = options.most_per_run;
  layout.places_.resize(params.size());
  const bool whole = options.slicing == Slicing::kWholeParameters;
  Bucket small{.params = {}, .numel = 0, .persistent = true};
  Bucket large;
  int unit = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const LayoutParam& param = params[i];
    const bool persistent = param.numel < options.persistence_numel;
    const bool next_unit = !persistent && param.unit != unit;
    if (next_unit && (!whole || layout.is_even(large, params))) layout.close(large, params);
    if (!persistent) unit = param.unit;
    Bucket& bucket = persistent ? small : large;
    if (bucket.numel + param.numel > options.bucket_numel) layout.close(bucket, params);
    bucket.params.push_back(
        {.param = static_cast<int>(i), .offset = bucket.numel, .numel = param.numel});
    bucket.numel += round_up(param.numel, options.alignment);
  }
  layout.close(large, params);
  layout.close(small, params);
  return layout;
}

int64_t BucketLayout::slice_numel(int bucket) const {
  return nth(buckets_, bucket).numel / group_size_;
}

std::vector<ShardField> BucketLayout::fields(int bucket, int rank) const {
  const Bucket& whole = nth(buckets_, bucket);
  const int64_t begin = rank < 0 ? 0 : rank * slice_numel(bucket);
  const int64_t end = rank < 0 ? whole.numel : begin + slice_numel(bucket);
  std::vector<ShardField> fields;
  for (const BucketParam& at : whole.params) {
    const int64_t first = std::max(begin, at.offset);
    const int64_t last = std::min(end, at.offset + at.numel);
    if (first >= last) continue;
    fields.push_back({.param = at.param,
                      .param_begin = first - at.offset,
                      .numel = last - first,
                      .offset = first - begin});
  }
  return fields;
}

int64_t BucketLayout::numel() const {
  int64_t total = 0;
  for (const Bucket& bucket : buckets_) total += bucket.numel;
  return total;
}

std::string BucketLayout::to_string() const {
  std::string text;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    text +=
        fmt::format("bucket {}: {} elements, slices of {}{}\n", b, buckets_[b].numel,
                    slice_numel(static_cast<int>(b)), buckets_[b].persistent ? ", persistent" : "");
    for (const BucketParam& at : buckets_[b].params) {
      text += fmt::format("  param {} at {}, {} elements\n", at.param, at.offset, at.numel);
    }
  }
  return text;
}

}  // namespace ds
