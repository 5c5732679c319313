// (pure) Which parameter lies where: parameters are laid end to end in buckets, the units of
// communication; every rank of the group owns an equal slice of every bucket. The layout depends on
// the parameters, the bucket sizes and the group size, not on the ZeRO stage: that is what makes
// the stages bit-identical (equal slices, equal sums of squares, equal order).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/values/index.h"
#include "optim/optimizer.h"

namespace ds {

struct LayoutParam {
  int64_t numel = 0;
  int unit = 0;   // buckets do not span units, persistent ones excepted
  int group = 0;  // those of one lie side by side in a bucket
};

enum class Slicing : uint8_t {
  kElements,
  // No slice ends within a parameter: each rank has whole ones, as many elements as the others as
  // nearly as that goes. What is missing is padding, which travels with the rest; so a bucket goes
  // on over units until little is missing, or it is full.
  kWholeParameters
};

struct LayoutOptions {
  int64_t bucket_numel =
      500'000'000;                // a bucket holds at most this many elements, or one parameter
  int64_t persistence_numel = 0;  // smaller parameters stay whole on every rank at stage 3
  int group_size = 1;
  Slicing slicing = Slicing::kElements;
  // Slices are padded to equal runs of at most this many elements, a multiple of the alignment;
  // nothing: as they are.
  std::optional<int64_t> most_per_run = std::nullopt;
  // Parameters and slices start at multiples of so many elements, itself one of kSliceAlignment.
  int64_t alignment = 32;
};

struct BucketParam {
  int param = 0;
  int64_t offset = 0;  // elements from the start of the bucket
  int64_t numel = 0;
};

struct Bucket {
  std::vector<BucketParam> params;
  int64_t numel = 0;        // padded: a multiple of group_size * kSliceAlignment
  bool persistent = false;  // small parameters of all units
};

class BucketLayout {
 public:
  // Parameters and slices start at multiples of this many elements by default (64 bytes in 16-bit
  // types).
  static constexpr int64_t kSliceAlignment = 32;

  static BucketLayout build(std::span<const LayoutParam> params, const LayoutOptions& options);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  int group_size() const { return group_size_; }
  int bucket_of(int param) const { return nth(places_, param).bucket; }
  int64_t offset_of(int param) const { return nth(places_, param).offset; }
  int64_t slice_numel(int bucket) const;
  // What slice `rank` of a bucket holds, without padding; with rank < 0, what the whole bucket
  // holds.
  std::vector<ShardField> fields(int bucket, int rank) const;
  int64_t numel() const;  // sum over buckets, padding included
  std::string to_string() const;

 private:
  struct Place {
    int bucket = 0;
    int64_t offset = 0;
  };
  void close(Bucket& bucket, std::span<const LayoutParam> params);
  void place_in_slices(Bucket& bucket, std::span<const LayoutParam> params) const;
  int64_t padded_slice(int64_t numel) const;
  bool is_even(const Bucket& bucket, std::span<const LayoutParam> params) const;

  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
  int group_size_ = 1;
  int64_t alignment_ = kSliceAlignment;
  Slicing slicing_ = Slicing::kElements;
  std::optional<int64_t> most_per_run_;
};

}  // namespace ds
