#include "tests/zero/zenflow_reference.h"

#include <algorithm>
#include <cmath>

namespace ds::testing {

bool ZenflowReference::Param::has_rest() const {
  return is_matrix && std::ranges::find(important, false) != important.end();
}

ZenflowReference::ZenflowReference(const ZenflowOptions& options, const ReferenceAdam& adam,
                                   const std::vector<Shape>& shapes, const Value& start)
    : options_(options), adam_(adam) {
  for (const Shape& shape : shapes) {
    Param& param = params_.emplace_back();
    const auto numel = static_cast<size_t>(shape.numel());
    param.is_matrix = shape.rank() >= 2;
    param.columns = shape[shape.rank() - 1];
    param.rows = shape.numel() / param.columns;
    param.m = param.v = param.sum = std::vector<double>(numel, 0.0);
    for (size_t i = 0; i < numel; ++i) {
      param.weight.push_back(
          start(static_cast<int64_t>(params_.size()) - 1, static_cast<int64_t>(i)));
    }
    param.seen = param.weight;
  }
}

void ZenflowReference::step(Param& param, int64_t element, double gradient) const {
  const auto i = static_cast<size_t>(element);
  const auto number = static_cast<double>(updates_);
  double& m = param.m[i];
  double& v = param.v[i];
  m = adam_.beta1 * m + (1 - adam_.beta1) * gradient;
  v = adam_.beta2 * v + (1 - adam_.beta2) * gradient * gradient;
  const double root = std::sqrt(v / (1 - std::pow(adam_.beta2, number))) + adam_.eps;
  param.weight[i] -= adam_.lr * (m / (1 - std::pow(adam_.beta1, number)) / root +
                                 adam_.weight_decay * param.weight[i]);
}

void ZenflowReference::choose(const Value& gradient) {
  for (size_t p = 0; p < params_.size(); ++p) {
    Param& param = params_[p];
    if (!param.is_matrix) continue;
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t c = 0; c < param.columns; ++c) {
      double squares = 0;
      for (int64_t r = 0; r < param.rows; ++r) {
        squares += std::pow(gradient(static_cast<int64_t>(p), r * param.columns + c), 2);
      }
      order.emplace_back(-squares, c);
    }
    std::ranges::sort(order);
    const auto count = static_cast<int64_t>(
        std::max(1.0, std::floor(static_cast<double>(param.columns) * options_.topk_ratio)));
    param.important.assign(static_cast<size_t>(param.columns), false);
    for (int64_t i = 0; i < count; ++i) {
      param.important[static_cast<size_t>(order[static_cast<size_t>(i)].second)] = true;
    }
  }
}

void ZenflowReference::add(const Value& gradient) {
  ++waiting_;
  for (size_t p = 0; p < params_.size(); ++p) {
    Param& param = params_[p];
    double important = 0, rest = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < param.rows * param.columns; ++i) {
      const double g = gradient(static_cast<int64_t>(p), i);
      if (param.is_important(i)) {
        step(param, i, g);
        param.seen[static_cast<size_t>(i)] = param.weight[static_cast<size_t>(i)];
        important += g * g;
        ++count;
      } else {
        param.sum[static_cast<size_t>(i)] += g;
        rest += g * g;
      }
    }
    if (!param.has_rest()) continue;
    param.important_sizes += std::sqrt(important / static_cast<double>(count));
    param.rest_sizes += std::sqrt(rest / static_cast<double>(param.rows * param.columns - count));
  }
}

bool ZenflowReference::is_due() const {
  if (options_.update_every) return false;
  int64_t due = 0, all = 0;
  for (const Param& param : params_) {
    if (!param.has_rest()) continue;
    ++all;
    due += param.rest_sizes >= param.important_sizes / static_cast<double>(waiting_) ? 1 : 0;
  }
  return due >= static_cast<int64_t>(options_.auto_ratio * static_cast<double>(all));
}

// Late: what the interval before has come to is seen now, and this one's comes to be seen with the
// next.
void ZenflowReference::end_interval(bool late) {
  for (Param& param : params_) {
    for (int64_t i = 0; i < param.rows * param.columns; ++i) {
      const auto at = static_cast<size_t>(i);
      if (param.is_important(i)) continue;
      if (late) param.seen[at] = param.weight[at];
      step(param, i, param.sum[at] / static_cast<double>(waiting_));
      if (!late) param.seen[at] = param.weight[at];
      param.sum[at] = 0;
    }
    param.important_sizes = param.rest_sizes = 0;
  }
  waiting_ = 0;
  ++intervals_;
}

void ZenflowReference::update(const Value& gradient) {
  ++updates_;
  if (updates_ <= options_.warm_up) {
    for (size_t p = 0; p < params_.size(); ++p) {
      Param& param = params_[p];
      for (int64_t i = 0; i < param.rows * param.columns; ++i) {
        step(param, i, gradient(static_cast<int64_t>(p), i));
      }
      param.seen = param.weight;
    }
    return;
  }
  const int64_t every = options_.select_every;
  if (updates_ == options_.warm_up + 1 || (every > 0 && (updates_ - 1) % every == 0)) {
    for (Param& param : params_) param.seen = param.weight;  // nothing is under way
    choose(gradient);
  }
  add(gradient);
  const bool by_number =
      options_.update_every && (updates_ - options_.warm_up) % *options_.update_every == 0;
  if (by_number || is_due() || (every > 0 && updates_ % every == 0)) {
    end_interval(options_.overlaps);
  }
}

}  // namespace ds::testing
