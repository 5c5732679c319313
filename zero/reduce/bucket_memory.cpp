#include "zero/reduce/bucket_memory.h"

#include "kernels/elementwise/elementwise.h"

namespace ds {
namespace {

class KeptBuckets final : public BucketMemory {
 public:
  KeptBuckets(const BucketLayout& layout, DType dtype, Stream& compute, BucketSlots& slots)
      : BucketMemory(layout.buckets().size()) {
    const MemoryScope scope(compute, slots.memory());
    for (size_t b = 0; b < wholes_.size(); ++b) {
      const Bucket& bucket = layout.buckets()[b];
      wholes_[b] = Tensor::empty({bucket.numel}, dtype, compute, MemoryTag::kGradients);
      clear_gaps(bucket, wholes_[b], compute);
    }
  }

  bool open(int /*bucket*/) override { return false; }
  void close(int /*bucket*/, Stream& /*by*/) override {}
};

class LentBuckets final : public BucketMemory {
 public:
  LentBuckets(const BucketLayout& layout, DType dtype, Stream& compute, BucketSlots& slots)
      : BucketMemory(layout.buckets().size()),
        layout_(layout),
        dtype_(dtype),
        compute_(compute),
        slots_(slots) {}

  // It is still there where a step was not ended.
  bool open(int bucket) override {
    Tensor& whole = nth(wholes_, bucket);
    if (whole.defined()) return false;
    whole = slots_.take(nth(layout_.buckets(), bucket).numel, dtype_, compute_);
    return true;
  }
  void close(int bucket, Stream& by) override { slots_.give_back(nth(wholes_, bucket), by); }

 private:
  const BucketLayout& layout_;
  const DType dtype_;
  Stream& compute_;
  BucketSlots& slots_;
};

}  // namespace

void clear_gaps(const Bucket& layout, const Tensor& whole, Stream& compute) {
  int64_t end = 0;
  const auto clear_up_to = [&](int64_t begin) {
    if (begin > end) {
      Tensor gap = whole.narrow(end, begin - end);
      kernels::fill(compute, gap, 0.0F);
    }
  };
  for (const BucketParam& at : layout.params) {
    clear_up_to(at.offset);
    end = at.offset + at.numel;
  }
  clear_up_to(layout.numel);
}

std::unique_ptr<BucketMemory> make_kept_buckets(const BucketLayout& layout, DType dtype,
                                                Stream& compute, BucketSlots& slots) {
  return std::make_unique<KeptBuckets>(layout, dtype, compute, slots);
}

std::unique_ptr<BucketMemory> make_lent_buckets(const BucketLayout& layout, DType dtype,
                                                Stream& compute, BucketSlots& slots) {
  return std::make_unique<LentBuckets>(layout, dtype, compute, slots);
}

}  // namespace ds
