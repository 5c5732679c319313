#include "zero/reduce/gradient_period.h"

#include <algorithm>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

std::vector<int> times(std::vector<int> uses, int micro_steps) {
  for (int& count : uses) count *= micro_steps;
  return uses;
}

}  // namespace

GradientPeriod::GradientPeriod(const BucketLayout& layout, std::vector<int> expected)
    : layout_(layout),
      expected_(std::move(expected)),
      written_(expected_.size(), 0),
      missing_(layout.buckets().size(), 0) {}

void GradientPeriod::begin_step() {
  micro_step_ = 0;
  std::ranges::fill(written_, 0);
  std::ranges::fill(missing_, 0);
}

bool GradientPeriod::opens(int bucket) {
  int& missing = nth(missing_, bucket);
  if (missing > 0) return false;
  for (const BucketParam& at : nth(layout_.buckets(), bucket).params) {
    missing += nth(expected_, at.param);
  }
  return true;
}

bool GradientPeriod::is_first(int param) { return nth(written_, param)++ == 0; }

bool GradientPeriod::completes_bucket(int param) {
  int& missing = nth(missing_, layout_.bucket_of(param));
  const int expected = nth(expected_, param);
  DS_CHECK(missing > 0 && nth(written_, param) <= expected,
           "gradient of parameter {}: more contributions than the {} announced", param, expected);
  return --missing == 0;
}

void GradientPeriod::check_contributions(std::string_view period) {
  for (int param = 0; param < narrow<int>(written_.size()); ++param) {
    DS_CHECK(nth(written_, param) == nth(expected_, param),
             "gradient of parameter {}: {} contributions in this {}, expected {}", param,
             nth(written_, param), period, nth(expected_, param));
    nth(written_, param) = 0;
  }
}

void MicroStepPeriod::end_micro_step() {
  check_contributions("micro-step");
  ++micro_step_;
}

bool MicroStepPeriod::end_step() {
  DS_CHECK(micro_step_ == micro_steps_, "gradients: the step ends after {} of {} micro-steps",
           micro_step_, micro_steps_);
  return false;
}

void MicroStepPeriod::require_sum(int param) const {
  DS_CHECK(false, "gradient of parameter {}: no sum over micro-steps is kept", param);
}

StepPeriod::StepPeriod(const BucketLayout& layout, std::vector<int> uses, int micro_steps)
    : GradientPeriod(layout, times(std::move(uses), micro_steps)) {}

bool StepPeriod::is_due(int param) {
  static_cast<void>(completes_bucket(param));
  return false;
}

bool StepPeriod::end_step() {
  check_contributions("step");
  return true;
}

}  // namespace ds
