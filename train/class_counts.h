// How many samples an evaluation has scored, and of how many the highest score is that of their
// class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/pass/context.h"

namespace ds {

// Confined to one thread.
class ClassCounts final : public ScoreObserver {
 public:
  // Waits for the stream. Of equal scores the class with the lower number counts.
  void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets) override;
  // {scored, right}
  std::vector<int64_t> counts() const { return {scored_, right_}; }

 private:
  int64_t scored_ = 0, right_ = 0;
};

// Takes such counts of several ranks, one after the other; 0 of none.
double share_of_right(std::span<const int64_t> counts);

}  // namespace ds
