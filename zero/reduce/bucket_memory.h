// BucketMemory: where gradients of whole buckets are written. It is kept, or taken from the slots
// for the time between the first contribution and the reduction.
#pragma once

#include <memory>
#include <vector>

#include "core/values/index.h"
#include "zero/layout/bucket_layout.h"
#include "zero/layout/bucket_slots.h"

namespace ds {

class BucketMemory {
 public:
  virtual ~BucketMemory() = default;

  // Before the first contribution of a period: whether the memory is new, and undefined.
  virtual bool open(int bucket) = 0;
  // The bucket was reduced by work that `by` has been given.
  virtual void close(int bucket, Stream& by) = 0;
  // [numel]; undefined while there is none.
  const Tensor& whole(int bucket) const { return nth(wholes_, bucket); }

 protected:
  explicit BucketMemory(size_t buckets) : wholes_(buckets) {}
  std::vector<Tensor> wholes_;
};

// Padding between parameters must be zero: it takes part in norms and updates.
void clear_gaps(const Bucket& layout, const Tensor& whole, Stream& compute);

// Memory that peers read, with clear gaps. All of these must outlive the result.
std::unique_ptr<BucketMemory> make_kept_buckets(const BucketLayout& layout, DType dtype,
                                                Stream& compute, BucketSlots& slots);
std::unique_ptr<BucketMemory> make_lent_buckets(const BucketLayout& layout, DType dtype,
                                                Stream& compute, BucketSlots& slots);

}  // namespace ds
