// The largest eigenvalue of the loss's second derivative by the weights of each block, every so
// many steps: of the micro-batch that ended the step, by the weights as its update left them. All
// ranks compute, and find the same. What training computes is as it is without.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/engine.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"

namespace ds {

class BlockEigenvalues final : public StepObserver {
 public:
  // The options of the engine name eigenvalues. `source` has the batches that are trained on.
  BlockEigenvalues(Engine& engine, BatchSource& source, RunReports& reports);

  bool is_due(int64_t steps_done) const { return steps_done > 0 && steps_done % every_ == 0; }
  // Those that were found last, of each block by the largest of all; empty: none has been yet.
  std::span<const double> newest() const { return newest_; }

  bool needs_edge(int64_t steps_done) const override { return is_due(steps_done); }
  void at_edge(int64_t steps_done) override;
  void measure(Measured& measured) const override;  // "eigenvalue_s": what all of it took

 private:
  Engine& engine_;
  BatchSource& source_;
  RunReports& reports_;
  const int64_t every_;
  std::vector<double> newest_;
  double seconds_ = 0;
};

// On meta: makes a product of each block, so that a plan has the memory that it takes.
void rehearse_eigenvalues(Engine& engine, BatchSource& source);

}  // namespace ds
