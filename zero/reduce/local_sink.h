// LocalSink: nobody else sums up gradients of these parameters, and their state is on the device.
// Micro-batches are added up in the memory that the update reads.
#pragma once

#include "zero/reduce/bucket_sink.h"

namespace ds {

class LocalSink : public BucketSink {
 public:
  explicit LocalSink(SinkParts parts) : BucketSink(std::move(parts)) {
    for (int b = 0; b < buckets(); ++b) wholes_.push_back(whole(b));
  }
  Tensor gradient(int bucket) const override { return whole(bucket); }
  void add_sum_of_squares(const Tensor& total) override { add_squares(wholes_, total); }

 protected:
  bool starts_anew() const override { return period().begins_sum(); }
  void complete(int /*bucket*/) override {}
  void finish(int bucket) override { sum_over_others(whole(bucket)); }
  const std::vector<Tensor>& wholes() const { return wholes_; }

 private:
  std::vector<Tensor> wholes_;
};

}  // namespace ds
