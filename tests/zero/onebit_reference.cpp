#include "tests/zero/onebit_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ds::testing {
namespace {

using Floats = std::vector<float>;

size_t padded(size_t n, size_t ranks) {
  const size_t unit = ranks * (8 * ranks / std::gcd(ranks, size_t{8}));
  return (n + unit - 1) / unit * unit;
}

double squares(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// c becomes what compression loses; returns the scale and leaves the signs.
float compress(Floats& c, std::vector<bool>& positive) {
  const float scale = static_cast<float>(std::sqrt(squares(c))) /
                      static_cast<float>(std::sqrt(static_cast<double>(c.size())));
  positive.assign(c.size(), false);
  for (size_t i = 0; i < c.size(); ++i) {
    positive[i] = c[i] >= 0;
    c[i] -= positive[i] ? scale : -scale;
  }
  return scale;
}

// Averages the buffers of all ranks in one bit; all of them receive the average.
template <class Errors>
void exchange(std::vector<Floats*> buffers, Errors& errors) {
  const size_t ranks = buffers.size();
  if (ranks == 1) return;
  const size_t n = buffers[0]->size(), whole = padded(n, ranks), share = whole / ranks;
  errors.worker.resize(ranks, Floats(whole));
  errors.server.resize(ranks, Floats(share));
  std::vector<float> scales(ranks);
  std::vector<std::vector<bool>> signs(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < n; ++i) errors.worker[r][i] += (*buffers[r])[i];
    scales[r] = compress(errors.worker[r], signs[r]);
  }
  Floats result(whole);
  for (size_t server = 0; server < ranks; ++server) {
    Floats& error = errors.server[server];
    for (size_t i = 0; i < share; ++i) {
      float sum = 0;
      for (size_t r = 0; r < ranks; ++r) {
        sum += signs[r][server * share + i] ? scales[r] : -scales[r];
      }
      error[i] += sum * (1.0F / static_cast<float>(ranks));
    }
    std::vector<bool> positive;
    const float scale = compress(error, positive);
    for (size_t i = 0; i < share; ++i) result[server * share + i] = positive[i] ? scale : -scale;
  }
  for (Floats* buffer : buffers) std::copy_n(result.begin(), n, buffer->begin());
}

void decay_into(Floats& average, const Floats& values, double beta) {
  const auto keep = static_cast<float>(beta), rest = static_cast<float>(1 - beta);
  for (size_t i = 0; i < average.size(); ++i) average[i] = average[i] * keep + rest * values[i];
}
void decay_squares_into(Floats& average, const Floats& values, double beta) {
  const auto keep = static_cast<float>(beta), rest = static_cast<float>(1 - beta);
  for (size_t i = 0; i < average.size(); ++i) {
    average[i] = average[i] * keep + rest * values[i] * values[i];
  }
}

Floats direction(const Floats& m, const Floats& v, const Floats& w, double eps, double decay) {
  Floats u(m.size());
  for (size_t i = 0; i < u.size(); ++i) {
    u[i] = m[i] / (std::sqrt(v[i]) + static_cast<float>(eps)) + static_cast<float>(decay) * w[i];
  }
  return u;
}

CompressedParams common(const OptimizerConfig& config) {
  switch (*config.type) {
    case OptimizerType::kOneBitAdam:
      return config.onebit_adam;
    case OptimizerType::kZeroOneAdam:
      return config.zero_one_adam;
    default:
      return config.onebit_lamb;
  }
}

}  // namespace

const std::vector<int64_t>& onebit_sizes() {
  static const std::vector<int64_t> kSizes{37, 5, 64, 1, 100};
  return kSizes;
}

float onebit_start(int64_t param, int64_t at) {
  return static_cast<float>(
      0.5 * std::sin(0.7 * static_cast<double>(at) + 1.3 * static_cast<double>(param)) + 0.1);
}

float onebit_gradient(int rank, int64_t param, int64_t at, int64_t step) {
  const double angle = 0.37 * static_cast<double>(at) + 0.11 * static_cast<double>(param) +
                       0.3 * static_cast<double>(step);
  const double noise = std::sin(1.9 * static_cast<double>(at + 3 * step) + 2.3 * rank);
  return static_cast<float>((std::cos(angle) + 0.4 * noise) *
                            (0.1 + 0.2 * static_cast<double>(param)));
}

double onebit_rate(int64_t step) { return 0.01 / (1.0 + 0.05 * static_cast<double>(step)); }

OneBitRun::OneBitRun(const OptimizerConfig& config, int ranks) : config_(config), ranks_(ranks) {
  const size_t count = onebit_sizes().size();
  errors_.resize(count);
  frozen_ratio_.assign(count, 0.0);
  last_factor_.assign(count, 1.0);
  scale_.assign(count, 1.0);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<State>& of_rank = states_.emplace_back();
    for (size_t p = 0; p < count; ++p) {
      const Floats zeros(static_cast<size_t>(onebit_sizes()[p]));
      of_rank.push_back({zeros, zeros, zeros, zeros, zeros, zeros, zeros});
      for (size_t i = 0; i < zeros.size(); ++i) {
        of_rank.back().w[i] = onebit_start(static_cast<int64_t>(p), static_cast<int64_t>(i));
      }
      of_rank.back().agreed = of_rank.back().w;
    }
  }
}

std::vector<std::vector<Floats>> OneBitRun::weights() const {
  std::vector<std::vector<Floats>> all;
  for (const std::vector<State>& of_rank : states_) {
    std::vector<Floats>& mine = all.emplace_back();
    for (const State& state : of_rank) mine.push_back(state.w);
  }
  return all;
}

Floats OneBitRun::own_gradient(int rank, int64_t param, int64_t number) const {
  Floats g(states_[0][static_cast<size_t>(param)].w.size());
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] = onebit_gradient(rank, param, static_cast<int64_t>(i), number);
  }
  return g;
}

Floats OneBitRun::summed_gradient(int64_t param, int64_t number) const {
  Floats sum(states_[0][static_cast<size_t>(param)].w.size());
  for (int rank = 0; rank < ranks_; ++rank) {
    const Floats g = own_gradient(rank, param, number);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += g[i] / static_cast<float>(ranks_);
  }
  return sum;
}

void OneBitRun::descend(State& state, double rate, const CompressedParams& params) const {
  const Floats u = direction(state.m, state.v, state.w, params.eps, params.weight_decay);
  for (size_t i = 0; i < u.size(); ++i) state.w[i] -= static_cast<float>(rate) * u[i];
}

void OneBitRun::step(int64_t number) {
  switch (*config_.type) {
    case OptimizerType::kOneBitAdam:
      return adam_step(number);
    case OptimizerType::kZeroOneAdam:
      return zero_one_step(number);
    default:
      return lamb_step(number);
  }
}

void OneBitRun::adam_step(int64_t number) {
  if (number == 1) return;
  if (number > std::max<int64_t>(2, config_.onebit_adam.freeze_step)) {
    return adam_compressed(number);
  }
  adam_warm(number);
}

void OneBitRun::adam_warm(int64_t number) {
  for (size_t p = 0; p < errors_.size(); ++p) adam_whole(p, number);
}

void OneBitRun::adam_whole(size_t p, int64_t number) {
  const CompressedParams params = common(config_);
  const Floats g = summed_gradient(static_cast<int64_t>(p), number);
  for (std::vector<State>& of_rank : states_) {
    decay_into(of_rank[p].m, g, params.betas[0]);
    decay_squares_into(of_rank[p].v, g, params.betas[1]);
    descend(of_rank[p], onebit_rate(number), params);
  }
}

// Patterns are names here.
bool OneBitRun::never_freezes(size_t p) const {
  return std::ranges::any_of(config_.param_groups, [&](const ParamGroupConfig& group) {
    return group.non_freeze.value_or(false) && group.match[0] == "p" + std::to_string(p);
  });
}

void OneBitRun::adam_compressed(int64_t number) {
  const CompressedParams params = common(config_);
  for (size_t p = 0; p < errors_.size(); ++p) {
    if (never_freezes(p)) {
      adam_whole(p, number);
      continue;
    }
    std::vector<Floats*> momenta;
    for (int rank = 0; rank < ranks_; ++rank) {
      Floats& m = states_[static_cast<size_t>(rank)][p].m;
      decay_into(m, own_gradient(rank, static_cast<int64_t>(p), number), params.betas[0]);
      momenta.push_back(&m);
    }
    exchange(momenta, errors_[p]);
    for (std::vector<State>& of_rank : states_) descend(of_rank[p], onebit_rate(number), params);
  }
}

// As ZeroOneAdam.step() counts, whose first call only sets up.
void OneBitRun::zero_one_step(int64_t number) {
  const ZeroOneAdamParams& params = config_.zero_one_adam;
  if (number > 1) {
    if (frozen_) {
      zero_one_local(number);
      if (number % local_interval_ == 0) zero_one_agree();
      if (++local_count_ == params.local_step_scaler) {
        local_count_ = 0;
        local_interval_ = std::min(params.local_step_clipper, local_interval_ * 2);
      }
    } else if (number % variance_interval_ == 0) {
      adam_warm(number);
      if (++variance_count_ == params.var_update_scaler) {
        variance_count_ = 0;
        variance_interval_ *= 2;
      }
    } else {
      zero_one_gradient(number);
    }
  }
  if (number > 1 && number > params.var_freeze_step && !frozen_) {
    frozen_ = true;
    errors_.assign(errors_.size(), {});
    for (std::vector<State>& of_rank : states_) {
      for (State& state : of_rank) state.agreed = state.w;
    }
  }
}

void OneBitRun::zero_one_gradient(int64_t number) {
  const CompressedParams params = common(config_);
  for (size_t p = 0; p < errors_.size(); ++p) {
    std::vector<Floats> gradients;
    std::vector<Floats*> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      gradients.push_back(own_gradient(rank, static_cast<int64_t>(p), number));
    }
    for (Floats& gradient : gradients) all.push_back(&gradient);
    exchange(all, errors_[p]);
    for (std::vector<State>& of_rank : states_) {
      decay_into(of_rank[p].m, gradients[0], params.betas[0]);
      descend(of_rank[p], onebit_rate(number), params);
    }
  }
}

void OneBitRun::zero_one_local(int64_t number) {
  const CompressedParams params = common(config_);
  rates_ += onebit_rate(number);
  for (int rank = 0; rank < ranks_; ++rank) {
    for (size_t p = 0; p < errors_.size(); ++p) {
      State& state = states_[static_cast<size_t>(rank)][p];
      decay_into(state.m, own_gradient(rank, static_cast<int64_t>(p), number), params.betas[0]);
      const Floats u = direction(state.m, state.v, state.w, params.eps, params.weight_decay);
      for (size_t i = 0; i < u.size(); ++i) {
        state.moved[i] -= static_cast<float>(onebit_rate(number)) * u[i];
        state.w[i] = state.agreed[i] + state.moved[i];
      }
    }
  }
}

void OneBitRun::zero_one_agree() {
  const auto eps = static_cast<float>(config_.zero_one_adam.eps);
  for (size_t p = 0; p < errors_.size(); ++p) {
    std::vector<Floats*> moved;
    for (std::vector<State>& of_rank : states_) {
      State& state = of_rank[p];
      for (size_t i = 0; i < state.w.size(); ++i) state.moved[i] *= std::sqrt(state.v[i]) + eps;
      moved.push_back(&state.moved);
    }
    exchange(moved, errors_[p]);
    for (std::vector<State>& of_rank : states_) {
      State& state = of_rank[p];
      for (size_t i = 0; i < state.w.size(); ++i) {
        state.m[i] = -state.moved[i] / static_cast<float>(rates_);
        state.w[i] = state.agreed[i] + state.moved[i] / (std::sqrt(state.v[i]) + eps);
        state.moved[i] = 0;
      }
      state.agreed = state.w;
    }
  }
  rates_ = 0;
}

void OneBitRun::lamb_step(int64_t number) {
  if (number == 1) return;
  const int64_t last_warm = std::max<int64_t>(2, config_.onebit_lamb.freeze_step);
  if (number <= last_warm) return lamb_warm(number);
  if (number == last_warm + 1) {
    double mean = 0;
    std::vector<double> sizes;
    for (const State& state : states_[0]) {
      sizes.push_back(std::sqrt(squares(state.m) / static_cast<double>(state.m.size())));
      mean += sizes.back() / static_cast<double>(states_[0].size());
    }
    for (size_t p = 0; p < sizes.size(); ++p) scale_[p] = sizes[p] > 0 ? mean / sizes[p] : 1.0;
  }
  lamb_compressed(number);
}

void OneBitRun::lamb_warm(int64_t number) {
  const OneBitLambParams& params = config_.onebit_lamb;
  for (size_t p = 0; p < errors_.size(); ++p) {
    double ratio = 1;
    const Floats g = summed_gradient(static_cast<int64_t>(p), number);
    for (std::vector<State>& of_rank : states_) {
      State& state = of_rank[p];
      decay_into(state.m, g, params.betas[0]);
      decay_squares_into(state.v, g, params.betas[1]);
      if (number == params.freeze_step) state.fresh = state.v;
      const Floats u = direction(state.m, state.v, state.w, params.eps, params.weight_decay);
      const double w_norm = std::sqrt(squares(state.w)), u_norm = std::sqrt(squares(u));
      ratio = 1;
      if (w_norm != 0 && u_norm != 0) {
        ratio = std::max(params.min_coeff, std::min(params.max_coeff, w_norm / u_norm));
      }
      descend(state, onebit_rate(number) * ratio, params);
    }
    if (ratio == 1.0) continue;
    frozen_ratio_[p] = params.coeff_beta * frozen_ratio_[p] + (1 - params.coeff_beta) * ratio;
  }
}

void OneBitRun::lamb_exchange(int64_t number) {
  std::vector<Floats> flat;
  for (int rank = 0; rank < ranks_; ++rank) {
    Floats& mine = flat.emplace_back();
    for (size_t p = 0; p < errors_.size(); ++p) {
      State& state = states_[static_cast<size_t>(rank)][p];
      state.last = state.m;
      decay_into(state.m, own_gradient(rank, static_cast<int64_t>(p), number),
                 config_.onebit_lamb.betas[0]);
      for (float& m : state.m) mine.push_back(m * static_cast<float>(scale_[p]));
      mine.resize((mine.size() + 7) / 8 * 8);
    }
  }
  std::vector<Floats*> all;
  for (Floats& one : flat) all.push_back(&one);
  exchange(all, flat_errors_);
  for (size_t rank = 0; rank < flat.size(); ++rank) {
    size_t at = 0;
    for (size_t p = 0; p < errors_.size(); ++p) {
      for (float& m : states_[rank][p].m) m = flat[rank][at++] / static_cast<float>(scale_[p]);
      at = (at + 7) / 8 * 8;
    }
  }
}

double OneBitRun::lamb_factor(int64_t param, double prelim, double with_decay) {
  const OneBitLambParams& params = config_.onebit_lamb;
  const auto p = static_cast<size_t>(param);
  const State& state = states_[0][p];
  double factor = 0;
  for (size_t i = 0; i < state.v.size(); ++i) {
    const double eps = params.eps;
    factor = std::max(factor, (std::sqrt(static_cast<double>(state.v[i])) + eps) /
                                  (std::sqrt(static_cast<double>(state.fresh[i])) + eps));
  }
  if (params.weight_decay > 0) {
    const double share = std::min(1.0, prelim / with_decay);
    factor = factor * share + (1.0 - share);
  }
  factor = std::max(params.factor_min, std::min(params.factor_max, factor));
  factor = std::min(factor, last_factor_[p] * (1.0 + params.factor_threshold));
  factor = std::max(factor, last_factor_[p] * (1.0 - params.factor_threshold));
  return last_factor_[p] = factor;
}

void OneBitRun::lamb_compressed(int64_t number) {
  const OneBitLambParams& params = config_.onebit_lamb;
  lamb_exchange(number);
  for (size_t p = 0; p < errors_.size(); ++p) {
    for (std::vector<State>& of_rank : states_) {
      State& state = of_rank[p];
      Floats g(state.m.size());
      for (size_t i = 0; i < g.size(); ++i) {
        g[i] = (state.m[i] - state.last[i] * static_cast<float>(params.betas[0])) /
               static_cast<float>(1 - params.betas[0]);
      }
      decay_squares_into(state.fresh, g, params.betas[1]);
    }
    const State& first = states_[0][p];
    const double prelim = std::sqrt(squares(direction(first.m, first.v, first.w, params.eps, 0)));
    const double with_decay =
        std::sqrt(squares(direction(first.m, first.v, first.w, params.eps, params.weight_decay)));
    const double ratio =
        frozen_ratio_[p] * lamb_factor(static_cast<int64_t>(p), prelim, with_decay);
    for (std::vector<State>& of_rank : states_) {
      descend(of_rank[p], onebit_rate(number) * ratio, params);
    }
  }
}

}  // namespace ds::testing
