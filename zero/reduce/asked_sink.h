// AskedSink: gradients of those steps alone are summed over ranks that say so. In the others the
// optimizer exchanges what it needs, and every rank keeps the whole of its own (1-bit Adam and its
// like).
#pragma once

#include <vector>

#include "zero/reduce/bucket_sink.h"

namespace ds {

// Sink: does what is to be done in steps with gradients of all ranks.
template <class Sink>
class AskedSink final : public Sink {
 public:
  using Sink::Sink;

  void begin_step(GradientsOf gradients) override {
    Sink::begin_step(GradientsOf::kAllRanks);
    gradients_ = gradients;
  }
  void end_step() override {
    if (gradients_ == GradientsOf::kAllRanks) return Sink::end_step();
    static_cast<void>(this->period().end_step());  // nothing is due
  }
  void add_sum_of_squares(const Tensor& total) override {
    gradients_ == GradientsOf::kAllRanks ? Sink::add_sum_of_squares(total)
                                         : this->add_squares(this->wholes(), total);
  }

 private:
  GradientsOf gradients_ = GradientsOf::kAllRanks;
};

}  // namespace ds
