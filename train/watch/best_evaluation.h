// Which of a run's evaluations was the best one, and whether it is worth to go on (pure). All ranks
// hear the same losses, so that they come to the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ds {

struct StoppingRule {
  int64_t patience = 0;  // evaluations in turn that are no better; 0: never
  double threshold = 0;  // by how much more than this a loss has to be less
};

class BestEvaluation {
 public:
  explicit BestEvaluation(const StoppingRule& rule) : rule_(rule) {}

  // Hears the loss of an evaluation; whether it is less than all before. One that is no number is
  // not.
  bool hear(int64_t step, double loss);
  // As transformers' EarlyStoppingCallback has it: `patience` evaluations in turn were not better
  // than the best one before them by more than the threshold.
  bool is_over() const { return rule_.patience > 0 && worse_ >= rule_.patience; }
  std::optional<double> loss() const { return loss_; }  // the least; nothing before the first
  int64_t step() const { return step_; }                // of it
  int64_t worse() const { return worse_; }              // evaluations since one that was better
  // The tag that has the state of that step; empty: none has.
  const std::string& tag() const { return tag_; }
  void saved_as(std::string tag) { tag_ = std::move(tag); }

  // What goes with a checkpoint; "" before the first evaluation. measure: what was measured and
  // how; losses of another measure are no less and no more.
  std::string text(const std::string& measure) const;
  // What came with one, or nothing. False, and nothing is known: it is of another measure.
  // ValidationError for what is none.
  bool restore(const std::string& text, const std::string& measure);

 private:
  const StoppingRule rule_;
  std::optional<double> loss_;
  int64_t step_ = 0, worse_ = 0;
  std::string tag_;
};

}  // namespace ds
