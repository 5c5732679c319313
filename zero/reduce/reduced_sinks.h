// Sinks of gradients that are summed over ranks, with the state on the device: SlicedSink keeps
// this rank's slices of the sums, and WholeSink has the whole of them on every rank at the end of
// the step.
#pragma once

#include <memory>
#include <vector>

#include "zero/reduce/bucket_sink.h"
#include "zero/reduce/gradient_wire.h"

namespace ds {

// SumPlaces says where sums are kept, for each bucket. A slice may be a view of the whole sum, or
// of the memory that gradients are written into.
struct SumPlaces {
  DType dtype = DType::kF32;   // as summed over micro-steps
  std::vector<Tensor> slices;  // [slice_numel]
  std::vector<Tensor> wholes;  // [numel], with whole state
};

class SlicedSink : public SendingSink {
 public:
  SlicedSink(SinkParts parts, std::unique_ptr<GradientWire> wire, SumPlaces sums)
      : SendingSink(std::move(parts)), wire_(std::move(wire)), sums_(std::move(sums)) {}
  Tensor gradient(int bucket) const override { return nth(sums_.slices, bucket); }
  void add_sum_of_squares(const Tensor& total) override { add_squares(sums_.slices, total); }

 protected:
  void send(int bucket) override;
  void finish(int bucket) override { sum_over_others(nth(sums_.slices, bucket)); }
  const GradientWire& wire() const { return *wire_; }
  const std::vector<Tensor>& slices() const { return sums_.slices; }
  const std::vector<Tensor>& wholes() const { return sums_.wholes; }

 private:
  const std::unique_ptr<GradientWire> wire_;
  const SumPlaces sums_;
};

class WholeSink : public SlicedSink {
 public:
  using SlicedSink::SlicedSink;
  Tensor gradient(int bucket) const override { return nth(wholes(), bucket); }

 protected:
  void finish(int bucket) override;
};

}  // namespace ds
