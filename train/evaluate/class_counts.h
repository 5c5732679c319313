// How many samples, or tokens, an evaluation has scored, and of how many the highest score is that
// of their class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/pass/context.h"

namespace ds {

// What became of one class.
struct ClassTally {
  int64_t scored = 0;     // rows that are of it
  int64_t right = 0;      // of these, whose highest score is its own
  int64_t predicted = 0;  // rows whose highest score is its own
};

// Confined to one thread.
class ClassCounts final : public ScoreObserver {
 public:
  // Waits for the stream. Of equal scores the class with the lower number counts.
  void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                 const Tensor& values) override;
  // {scored, right}
  std::vector<int64_t> counts() const;
  ClassTally tally(size_t label) const {
    return label < tallies_.size() ? tallies_[label] : ClassTally{};
  }

 private:
  std::vector<ClassTally> tallies_;  // none before there are scores
};

// Takes such counts of several ranks, one after the other; 0 of none.
double share_of_right(std::span<const int64_t> counts);

}  // namespace ds
