// (pure) The period after which buckets are reduced, and which contributions gradients get in it: a
// micro-step, or the step, where micro-batches under way contribute in turn and are added up first.
// The second moves less (by the number of micro-steps), needs whole gradients, and is another order
// of summation.
#pragma once

#include <string_view>
#include <vector>

#include "zero/layout/bucket_layout.h"

namespace ds {

class GradientPeriod {
 public:
  // expected[i]: contributions that parameter i gets in a period. The layout must outlive it.
  GradientPeriod(const BucketLayout& layout, std::vector<int> expected);
  virtual ~GradientPeriod() = default;

  // Counts may be left of a step that was not ended, as the dry run's are not.
  void begin_step();
  // A contribution to a parameter of the bucket begins: whether it is the bucket's first.
  bool opens(int bucket);
  // A contribution to the parameter begins: whether it is the parameter's first.
  bool is_first(int param);
  // A contribution is complete: whether its bucket is due to be reduced.
  virtual bool is_due(int param) = 0;
  virtual void end_micro_step() = 0;
  void repeat_micro_step() { ++micro_step_; }
  // Whether all buckets are due now. Throws where something is missing.
  virtual bool end_step() = 0;
  // How often a bucket is reduced in a step.
  virtual int reductions() const = 0;
  // Whether what is reduced now is the first, or the last, of a step.
  virtual bool begins_sum() const = 0;
  virtual bool completes_sum() const = 0;
  // Throws where the sum over micro-steps is not kept for the parameter.
  virtual void require_sum(int param) const = 0;

 protected:
  bool completes_bucket(int param);
  // Every parameter has had its contributions, and begins anew.
  void check_contributions(std::string_view period);

  int micro_step_ = 0;

 private:
  const BucketLayout& layout_;
  const std::vector<int> expected_;
  std::vector<int> written_;  // contributions of a parameter in this period
  std::vector<int> missing_;  // contributions of a bucket; 0: none has begun, or it is complete
};

// Each micro-step is a period.
class MicroStepPeriod final : public GradientPeriod {
 public:
  MicroStepPeriod(const BucketLayout& layout, std::vector<int> uses, int micro_steps)
      : GradientPeriod(layout, std::move(uses)), micro_steps_(micro_steps) {}
  bool is_due(int param) override { return completes_bucket(param); }
  void end_micro_step() override;
  bool end_step() override;
  int reductions() const override { return micro_steps_; }
  bool begins_sum() const override { return micro_step_ == 0; }
  bool completes_sum() const override { return micro_step_ + 1 == micro_steps_; }
  void require_sum(int param) const override;

 private:
  const int micro_steps_;
};

// The step is one period.
class StepPeriod final : public GradientPeriod {
 public:
  StepPeriod(const BucketLayout& layout, std::vector<int> uses, int micro_steps);
  bool is_due(int param) override;
  void end_micro_step() override { ++micro_step_; }
  bool end_step() override;
  int reductions() const override { return 1; }
  bool begins_sum() const override { return true; }
  bool completes_sum() const override { return true; }
  void require_sum(int /*param*/) const override {}
};

}  // namespace ds
