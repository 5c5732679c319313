// How near scores come to the values of records: of numbers that are told, and of classes that hold
// or not, each by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/pass/context.h"

namespace ds {

// What an evaluation has scored, in order. Confined to one thread.
class ScoredValues final : public ScoreObserver {
 public:
  // Waits for the stream.
  void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                 const Tensor& values) override;
  int64_t rows() const { return rows_; }
  // What the model gave a label in all rows, and what the records say.
  std::vector<double> scores_of(size_t label) const { return column(scores_, label); }
  std::vector<double> values_of(size_t label) const { return column(values_, label); }

 private:
  std::vector<double> column(const std::vector<float>& all, size_t label) const;

  size_t width_ = 0;
  int64_t rows_ = 0;
  std::vector<float> scores_, values_;  // [rows, width]
};

// The mean of |score - value|; both have the same size, at least 1.
double mean_absolute_error(const std::vector<double>& scores, const std::vector<double>& values);
// Pearson's correlation; nothing where one of the two is the same everywhere.
std::optional<double> pearson(const std::vector<double>& scores, const std::vector<double>& values);
// Spearman's: that of the ranks, equal ones with the mean of theirs.
std::optional<double> spearman(const std::vector<double>& scores,
                               const std::vector<double>& values);

// What became of a class that holds for some records: a score above 0 says that it does, and so
// does a value of at least one half.
struct HoldTally {
  int64_t holds = 0;      // records for which it does
  int64_t right = 0;      // of these, for which the score says so
  int64_t predicted = 0;  // records for which the score says so

  // 2 right / (holds + predicted); 0 where both are 0, as scikit-learn has it.
  double f1() const;
  HoldTally& operator+=(const HoldTally& other);
};
HoldTally hold_tally(const std::vector<double>& scores, const std::vector<double>& values);
// The share of rows of which every label is right.
double share_of_exact(const ScoredValues& scored, size_t labels);

}  // namespace ds
