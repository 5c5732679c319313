// 1-bit Adam and 1-bit LAMB.
#include "optim/onebit.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/step/lamb_update.h"
#include "optim/rules.h"

namespace ds {
namespace {

// Step 1 sets up; steps up to freeze_step warm up, but never fewer than one.
OneBitPhase phase_of(int64_t finished, int64_t freeze_step) {
  if (finished == 0) return OneBitPhase::kSetUp;
  return finished == 1 || finished < freeze_step ? OneBitPhase::kWarmUp : OneBitPhase::kCompressed;
}

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

// average = beta average + (1 - beta) power(value)
void decay_into(std::span<float> average, std::span<const float> values, double beta) {
  const float keep = static_cast<float>(beta), rest = static_cast<float>(1 - beta);
  for (size_t i = 0; i < average.size(); ++i) average[i] = average[i] * keep + rest * values[i];
}
void decay_squares_into(std::span<float> average, std::span<const float> values, double beta) {
  const float keep = static_cast<float>(beta), rest = static_cast<float>(1 - beta);
  for (size_t i = 0; i < average.size(); ++i) {
    average[i] = average[i] * keep + rest * values[i] * values[i];
  }
}

// u = m / (sqrt(v) + eps)
std::vector<float> direction(std::span<const float> momentum, std::span<const float> variance,
                             double eps) {
  std::vector<float> u(momentum.size());
  for (size_t i = 0; i < u.size(); ++i) {
    u[i] = momentum[i] / (std::sqrt(variance[i]) + static_cast<float>(eps));
  }
  return u;
}

void add_decay(std::span<float> u, std::span<const float> weight, double weight_decay) {
  if (weight_decay <= 0) return;
  for (size_t i = 0; i < u.size(); ++i) u[i] += static_cast<float>(weight_decay) * weight[i];
}

void descend(std::span<float> weight, std::span<const float> u, double rate) {
  for (size_t i = 0; i < weight.size(); ++i) weight[i] -= static_cast<float>(rate) * u[i];
}

}  // namespace

OneBitAdam::OneBitAdam(const OneBitAdamParams& params, int64_t numel)
    : params_(params),
      momentum_(static_cast<size_t>(numel)),
      variance_(static_cast<size_t>(numel)) {}

OneBitPhase OneBitAdam::phase() const { return phase_of(step_, params_.freeze_step); }

void OneBitAdam::accumulate(std::span<const float> grad) {
  DS_CHECK(grad.size() == momentum_.size(), "onebit adam: {} gradients for {} weights", grad.size(),
           momentum_.size());
  if (phase() == OneBitPhase::kSetUp) return;
  decay_into(momentum_, grad, params_.betas[0]);
  if (phase() == OneBitPhase::kWarmUp) decay_squares_into(variance_, grad, params_.betas[1]);
}

void OneBitAdam::update(std::span<float> weight) {
  DS_CHECK(weight.size() == momentum_.size(), "onebit adam: {} weights given, it has {}",
           weight.size(), momentum_.size());
  if (phase() != OneBitPhase::kSetUp) {
    std::vector<float> u = direction(momentum_, variance_, params_.eps);
    add_decay(u, weight, params_.weight_decay);
    descend(weight, u, params_.lr);
  }
  ++step_;
}

OneBitLamb::OneBitLamb(const OneBitLambParams& params, std::span<const int64_t> numels)
    : params_(params) {
  int64_t offset = 0;
  for (const int64_t numel : numels) {
    const std::vector<float> zeros(static_cast<size_t>(numel));
    tensors_.push_back(
        {.offset = offset, .numel = numel, .variance = zeros, .live_variance = zeros});
    offset += numel;
  }
  momentum_.resize(static_cast<size_t>(offset));
}

OneBitPhase OneBitLamb::phase() const { return phase_of(step_, params_.freeze_step); }

std::span<float> OneBitLamb::momentum_of(const Tensor& tensor) {
  return std::span(momentum_).subspan(static_cast<size_t>(tensor.offset),
                                      static_cast<size_t>(tensor.numel));
}

// Compression has one scale for all tensors, so each momentum is brought to the mean RMS first.
void OneBitLamb::unite_scales() {
  std::vector<double> rms;
  double sum = 0;
  for (const Tensor& tensor : tensors_) {
    rms.push_back(norm(momentum_of(tensor)) / std::sqrt(static_cast<double>(tensor.numel)));
    sum += rms.back();
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const double united = sum / static_cast<double>(tensors_.size());
    tensors_[i].momentum_scale = rms[i] > 0 ? united / rms[i] : 1.0;
  }
}

void OneBitLamb::accumulate(std::span<const std::span<const float>> grads) {
  DS_CHECK(grads.size() == tensors_.size(), "onebit lamb: {} gradients for {} tensors",
           grads.size(), tensors_.size());
  const OneBitPhase now = phase();
  if (now == OneBitPhase::kSetUp) return;
  if (now == OneBitPhase::kCompressed) {
    if (last_momentum_.empty()) unite_scales();  // the warm-up has just ended
    last_momentum_ = momentum_;
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    DS_CHECK(static_cast<int64_t>(grads[i].size()) == tensor.numel,
             "onebit lamb: {} gradients for tensor {} of {}", grads[i].size(), i, tensor.numel);
    decay_into(momentum_of(tensor), grads[i], params_.betas[0]);
    if (now == OneBitPhase::kCompressed) {
      for (float& m : momentum_of(tensor)) m *= static_cast<float>(tensor.momentum_scale);
      continue;
    }
    decay_squares_into(tensor.variance, grads[i], params_.betas[1]);
    if (step_ + 1 == params_.freeze_step) tensor.live_variance = tensor.variance;
  }
}

double OneBitLamb::warm_up(Tensor& tensor, std::span<float> weight) {
  std::vector<float> u = direction(momentum_of(tensor), tensor.variance, params_.eps);
  add_decay(u, weight, params_.weight_decay);
  const double ratio =
      kernels::trust_ratio(norm(weight), norm(u), params_.min_coeff, params_.max_coeff);
  if (ratio != 1.0) {
    tensor.frozen_ratio =
        params_.coeff_beta * tensor.frozen_ratio + (1 - params_.coeff_beta) * ratio;
  }
  descend(weight, u, params_.lr * ratio);
  return ratio;
}

// max over elements of (frozen denominator / live denominator), blended with the decay's share of
// the update, within [factor_min, factor_max] and within factor_threshold of the last one.
double OneBitLamb::live_factor(Tensor& tensor, double preliminary_norm, double update_norm) const {
  const float eps = static_cast<float>(params_.eps);
  double factor = 0;
  for (size_t i = 0; i < tensor.variance.size(); ++i) {
    const float frozen = std::sqrt(tensor.variance[i]) + eps;
    factor = std::max<double>(factor, frozen / (std::sqrt(tensor.live_variance[i]) + eps));
  }
  if (params_.weight_decay > 0) {
    const double share = std::min(1.0, preliminary_norm / update_norm);
    factor = factor * share + (1.0 - share);
  }
  factor = std::max(std::min(factor, params_.factor_max), params_.factor_min);
  factor = std::min(factor, tensor.last_factor * (1.0 + params_.factor_threshold));
  factor = std::max(factor, tensor.last_factor * (1.0 - params_.factor_threshold));
  return tensor.last_factor = factor;
}

double OneBitLamb::compressed(Tensor& tensor, std::span<float> weight) {
  const std::span<float> momentum = momentum_of(tensor);
  const float beta = static_cast<float>(params_.betas[0]);
  const float rest = static_cast<float>(1 - params_.betas[0]);
  std::vector<float> gradient(momentum.size());  // what the averaged momentum says it was
  for (size_t i = 0; i < momentum.size(); ++i) {
    momentum[i] /= static_cast<float>(tensor.momentum_scale);
    const float last = last_momentum_[static_cast<size_t>(tensor.offset) + i];
    gradient[i] = (momentum[i] - last * beta) / rest;
  }
  decay_squares_into(tensor.live_variance, gradient, params_.betas[1]);
  std::vector<float> u = direction(momentum, tensor.variance, params_.eps);
  const double preliminary_norm = norm(u);
  add_decay(u, weight, params_.weight_decay);
  const double coefficient = tensor.frozen_ratio * live_factor(tensor, preliminary_norm, norm(u));
  descend(weight, u, params_.lr * coefficient);
  return coefficient;
}

void OneBitLamb::update(std::span<const std::span<float>> weights) {
  DS_CHECK(weights.size() == tensors_.size(), "onebit lamb: {} weights for {} tensors",
           weights.size(), tensors_.size());
  const OneBitPhase now = phase();
  coefficients_.clear();
  for (size_t i = 0; now != OneBitPhase::kSetUp && i < tensors_.size(); ++i) {
    DS_CHECK(static_cast<int64_t>(weights[i].size()) == tensors_[i].numel,
             "onebit lamb: {} weights for tensor {} of {}", weights[i].size(), i,
             tensors_[i].numel);
    coefficients_.push_back(now == OneBitPhase::kWarmUp ? warm_up(tensors_[i], weights[i])
                                                        : compressed(tensors_[i], weights[i]));
  }
  ++step_;
}

}  // namespace ds
