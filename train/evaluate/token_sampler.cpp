#include "train/evaluate/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

int32_t likeliest(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      throw ValidationError(
          fmt::format("generate: the model's logit of token {} is not a number; its weights are "
                      "damaged or too large for their type",
                      i));
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits.empty() || logits[best] == kNever) {
    throw ValidationError(
        "generate: no token can be drawn: the model gives none that the tokenizer knows");
  }
  return static_cast<int32_t>(best);
}

}  // namespace

TokenSampler::TokenSampler(const SamplerOptions& options, std::vector<int32_t> never)
    : options_(options), never_(std::move(never)) {
  DS_CHECK(
      options.temperature >= 0 && options.top_k >= 0 && options.top_p > 0 && options.top_p <= 1,
      "token sampler: temperature {}, top_k {}, top_p {}", options.temperature, options.top_k,
      options.top_p);
  DS_CHECK(options.min_p >= 0 && options.min_p <= 1 && options.repetition_penalty > 0,
           "token sampler: min_p {}, repetition_penalty {}", options.min_p,
           options.repetition_penalty);
}

int32_t TokenSampler::draw(std::span<float> logits, float uniform,
                           std::span<const int32_t> before) {
  if (options_.repetition_penalty != 1) penalize(logits, before);
  for (const int32_t id : never_) {
    if (to_size(id) < logits.size()) nth(logits, id) = kNever;
  }
  const int32_t best = likeliest(logits);
  if (options_.temperature == 0 || options_.top_k == 1) return best;
  collect(logits);
  const double highest = nth(logits, best);
  weights_.clear();
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(std::exp((candidate.logit - highest) / options_.temperature));
  }
  if (options_.top_p < 1) keep_top_p();
  if (options_.min_p > 0) keep_min_p();
  double left = uniform * std::reduce(weights_.begin(), weights_.end());
  size_t last = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = i;
    left -= weights_[i];
    if (left < 0) break;
  }
  return candidates_[last].id;
}

// All penalties are of logits as they were: a token that came twice has one.
void TokenSampler::penalize(std::span<float> logits, std::span<const int32_t> before) {
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  penalized_.clear();
  for (const int32_t id : before) {
    const float logit = nth(logits, id);
    penalized_.push_back(logit < 0 ? logit * penalty : logit / penalty);
  }
  for (size_t i = 0; i < before.size(); ++i) nth(logits, before[i]) = penalized_[i];
}

void TokenSampler::collect(std::span<const float> logits) {
  const size_t most = options_.top_k == 0 ? logits.size() : to_size(options_.top_k);
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate candidate{logits[i], static_cast<int32_t>(i)};
    if (candidate.logit == kNever) continue;
    if (candidates_.size() < most) {
      candidates_.push_back(candidate);
      if (candidates_.size() == most) std::ranges::make_heap(candidates_, is_before);
    } else if (is_before(candidate, candidates_.front())) {  // the least likely so far
      std::ranges::pop_heap(candidates_, is_before);
      candidates_.back() = candidate;
      std::ranges::push_heap(candidates_, is_before);
    }
  }
  const bool in_order = options_.top_k > 0 || options_.top_p < 1;
  if (in_order) std::ranges::sort(candidates_, is_before);
}

void TokenSampler::keep_top_p() {
  const double wanted = options_.top_p * std::reduce(weights_.begin(), weights_.end());
  double sum = 0;
  size_t kept = 0;
  while (kept < weights_.size() && sum < wanted) sum += weights_[kept++];
  weights_.resize(kept);
}

void TokenSampler::keep_min_p() {
  for (double& weight : weights_) {
    if (weight < options_.min_p) weight = 0;
  }
}

}  // namespace ds
