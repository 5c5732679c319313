#include "zero/bucket_layout.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/memory/rounding.h"

namespace ds {
namespace {}  // namespace

void BucketLayout::close(Bucket& bucket) {
  if (bucket.params.empty()) return;
  bucket.numel = round_up(bucket.numel, group_size_ * kSliceAlignment);
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
  layout.group_size_ = options.group_size;
  layout.places_.resize(params.size());
  Bucket small{.params = {}, .numel = 0, .persistent = true};
  Bucket large;
  int unit = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const LayoutParam& param = params[i];
    const bool persistent = param.numel < options.persistence_numel;
    if (!persistent && param.unit != unit) layout.close(large);
    if (!persistent) unit = param.unit;
    Bucket& bucket = persistent ? small : large;
    if (bucket.numel + param.numel > options.bucket_numel) layout.close(bucket);
    bucket.params.push_back(
        {.param = static_cast<int>(i), .offset = bucket.numel, .numel = param.numel});
    bucket.numel += round_up(param.numel, kSliceAlignment);
  }
  layout.close(large);
  layout.close(small);
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
