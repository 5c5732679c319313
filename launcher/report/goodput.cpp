#include "launcher/report/goodput.h"

#include <algorithm>
#include <numeric>

#include "core/values/index.h"

namespace ds {

void GoodputAccount::step(const StepMetrics& metrics) {
  const auto said = [&](std::string_view name) { return metrics.values.find(name).value_or(0); };
  if (steps_.empty()) first_ = metrics.step;
  if (metrics.step < first_) {  // begun anew: nothing of it stands
    sums_.lost += std::accumulate(steps_.begin(), steps_.end(), 0.0);
    steps_.clear();
    first_ = metrics.step;
  }
  const size_t at = to_size(metrics.step - first_);
  for (; steps_.size() > at; steps_.pop_back()) sums_.lost += steps_.back();
  steps_.resize(at);  // those that nobody reported took no time that is known
  steps_.push_back(said("step_s"));
  sums_.evaluation += said("evaluation_s");
  sums_.waiting += said("paused_s");
  sums_.starting += said("starting_s");
}

Goodput GoodputAccount::total(Time elapsed) const {
  Goodput out = sums_;
  out.productive = std::accumulate(steps_.begin(), steps_.end(), 0.0);
  const double known =
      out.productive + out.lost + out.evaluation + out.checkpoint + out.waiting + out.starting;
  out.other = std::max(0.0, seconds_of(elapsed) - known);
  return out;
}

}  // namespace ds
