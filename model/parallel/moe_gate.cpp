// Mixture-of-experts gating.
#include "model/parallel/moe_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Softmax per token and the ordered choices before any dropping.
struct Choices {
  std::vector<float> probability;  // [tokens, experts]
  std::vector<int32_t> expert;     // [k, tokens]; -1 for tokens that do not take part
};

// Exponentials are rounded once from fp64: the libraries of all devices agree on these bits.
void softmax(std::span<const float> logits, std::span<float> out) {
  const float top = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    sum += out[e] = static_cast<float>(std::exp(static_cast<double>(logits[e] - top)));
  }
  for (float& value : out) value /= sum;
}

// The largest k, best first, equal ones by index.
void largest(std::span<const float> scores, int k, std::vector<int32_t>& order) {
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
    const float x = nth(scores, a), y = nth(scores, b);
    return x != y ? x > y : a < b;
  });
}

float gumbel(const Rng& rng, size_t index) {
  constexpr float kTiny = 1e-20F;
  return -std::log(-std::log(rng.uniform(index) + kTiny) + kTiny);
}

Choices choose(std::span<const float> logits, int64_t tokens, int64_t experts, int k,
               const GateOptions& options) {
  const size_t width = to_size(experts), count = to_size(tokens);
  Choices choices{std::vector<float>(logits.size()), std::vector<int32_t>(count * to_size(k), -1)};
  std::vector<int32_t> order;
  std::vector<float> noisy(width);
  for (size_t t = 0; t < count; ++t) {
    const auto row = logits.subspan(t * width, width);
    softmax(row, std::span(choices.probability).subspan(t * width, width));
    if (!options.used_tokens.empty() && options.used_tokens[t] == 0) continue;
    largest(row, k, order);
    if (options.rule == GateRule::kTop2 && options.second_expert != nullptr) {
      for (size_t e = 0; e < width; ++e) {
        noisy[e] = row[e] + gumbel(*options.second_expert, t * width + e);
      }
      nth(noisy, order[0]) = -std::numeric_limits<float>::infinity();
      order[1] = static_cast<int32_t>(std::max_element(noisy.begin(), noisy.end()) - noisy.begin());
    }
    for (size_t j = 0; j < to_size(k); ++j) choices.expert[j * count + t] = order[j];
  }
  return choices;
}

// experts * sum_e mean_t(probability) * mean_t(routed), divided by k; `routed` counts the first
// choices for kTop2, else all of them.
float load_balance_loss(const Choices& choices, int64_t tokens, int64_t experts, int counted,
                        int k) {
  const size_t width = to_size(experts), count = to_size(tokens);
  std::vector<double> probability(width, 0), routed(width, 0);
  for (size_t i = 0; i < choices.probability.size(); ++i) {
    probability[i % width] += choices.probability[i];
  }
  for (size_t i = 0; i < count * to_size(counted); ++i) {
    if (choices.expert[i] >= 0) nth(routed, choices.expert[i]) += 1;
  }
  double sum = 0;
  for (size_t e = 0; e < width; ++e) sum += probability[e] * routed[e];
  const double squared = static_cast<double>(tokens) * static_cast<double>(tokens);
  return static_cast<float>(sum / squared * static_cast<double>(experts) / k);
}

// Who keeps a place when more than `capacity` choices fall on one expert: positions in `members`
// are tried by descending score, equal ones in order.
template <class Score>
void drop_lowest(std::vector<std::vector<size_t>>& members, int64_t capacity, const Score& score) {
  for (std::vector<size_t>& list : members) {
    if (narrow<int64_t>(list.size()) <= capacity) continue;
    std::stable_sort(list.begin(), list.end(),
                     [&](size_t a, size_t b) { return score(a) > score(b); });
    list.resize(to_size(capacity));
  }
}

// Per expert the choices (positions in Gate::expert) that fall on it, in the order slots are given.
std::vector<std::vector<size_t>> members_of(const Gate& gate, GateRule rule) {
  std::vector<std::vector<size_t>> members(to_size(gate.experts));
  const size_t tokens = to_size(gate.tokens), k = to_size(gate.k);
  const auto add = [&](size_t position) {
    const int32_t expert = gate.expert[position];
    if (expert >= 0) nth(members, expert).push_back(position);
  };
  if (rule == GateRule::kTop2) {  // all first choices, then all second ones
    for (size_t position = 0; position < tokens * k; ++position) add(position);
  } else {
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t j = 0; j < k; ++j) add(j * tokens + t);
    }
  }
  return members;
}

void keep_members(Gate& gate, std::vector<std::vector<size_t>>& members, GateRule rule) {
  const std::vector<int32_t> chosen = std::move(gate.expert);
  gate.expert.assign(chosen.size(), -1);
  gate.slot.assign(chosen.size(), 0);
  const size_t tokens = to_size(gate.tokens);
  for (std::vector<size_t>& list : members) {
    if (rule == GateRule::kTop2) {
      std::sort(list.begin(), list.end());
    } else {
      std::sort(list.begin(), list.end(),
                [&](size_t a, size_t b) { return a % tokens < b % tokens; });
    }
    for (size_t slot = 0; slot < list.size(); ++slot) {
      gate.expert[list[slot]] = chosen[list[slot]];
      gate.slot[list[slot]] = static_cast<int32_t>(slot);
    }
  }
}

void weigh(Gate& gate, const Choices& choices, GateRule rule) {
  const size_t tokens = to_size(gate.tokens), k = to_size(gate.k);
  const size_t experts = to_size(gate.experts);
  gate.weight.assign(gate.expert.size(), 0);
  for (size_t t = 0; t < tokens; ++t) {
    float sum = 0;
    for (size_t j = 0; j < k; ++j) {
      const size_t at = j * tokens + t;
      if (gate.expert[at] < 0) continue;
      gate.weight[at] = choices.probability[t * experts + to_size(gate.expert[at])];
      sum += gate.weight[at];
    }
    if (rule == GateRule::kTop1) continue;
    sum = std::max(sum, std::numeric_limits<float>::epsilon());
    for (size_t j = 0; j < k; ++j) gate.weight[j * tokens + t] /= sum;
  }
}

void check(std::span<const float> logits, int64_t tokens, int64_t experts, int k,
           const GateOptions& options) {
  DS_CHECK(tokens > 0 && experts > 0 && narrow<int64_t>(logits.size()) == tokens * experts,
           "gate: {} logits for {} tokens and {} experts", logits.size(), tokens, experts);
  DS_CHECK(options.used_tokens.empty() || narrow<int64_t>(options.used_tokens.size()) == tokens,
           "gate: used_tokens has {} entries for {} tokens", options.used_tokens.size(), tokens);
  if (k < 1 || k > experts) {
    throw ConfigError(fmt::format("moe: k is {}, expected 1 to {} experts", k, experts));
  }
  if (options.rule == GateRule::kTop1 && tokens < options.min_capacity) {
    throw ConfigError(
        fmt::format("moe: {} tokens are fewer than min_capacity {}; set min_capacity "
                    "to 0 or increase the batch",
                    tokens, options.min_capacity));
  }
}

}  // namespace

int64_t expert_capacity(int64_t tokens, int64_t experts, double factor, int64_t min_capacity) {
  DS_CHECK(tokens >= 0 && experts > 0, "moe: capacity of {} tokens on {} experts", tokens, experts);
  const float share =
      static_cast<float>(static_cast<double>(tokens) / static_cast<double>(experts));
  const float slots = std::ceil(share * static_cast<float>(factor));
  return std::max(static_cast<int64_t>(slots), min_capacity);
}

Gate gate(std::span<const float> logits, int64_t tokens, int64_t experts,
          const GateOptions& options) {
  const int k = options.rule == GateRule::kTop1   ? 1
                : options.rule == GateRule::kTop2 ? 2
                                                  : options.k;
  check(logits, tokens, experts, k, options);
  const Choices choices = choose(logits, tokens, experts, k, options);
  Gate result{.k = k, .tokens = tokens, .experts = experts, .expert = choices.expert};
  const bool first_only = options.rule == GateRule::kTop2;
  result.aux_loss = first_only ? load_balance_loss(choices, tokens, experts, 1, 1)
                               : load_balance_loss(choices, tokens, experts, k, k);
  std::vector<std::vector<size_t>> members = members_of(result, options.rule);
  for (const auto& list : members) {
    result.expert_counts.push_back(narrow<int64_t>(list.size()));
  }
  if (options.drop == TokenDrop::kNever) {
    result.capacity = *std::max_element(result.expert_counts.begin(), result.expert_counts.end());
  } else {
    result.capacity =
        expert_capacity(tokens, experts, options.capacity_factor * k, options.min_capacity);
    const size_t count = to_size(tokens), width = to_size(experts);
    if (options.rule == GateRule::kTopK && options.policy == DropPolicy::kProbability) {
      drop_lowest(members, result.capacity, [&](size_t position) {
        const size_t expert = to_size(choices.expert[position]);
        return choices.probability[position % count * width + expert];
      });
    } else if (options.rule == GateRule::kTop1 && options.token_selection != nullptr) {
      drop_lowest(members, result.capacity,
                  [&](size_t position) { return options.token_selection->uniform(position); });
    } else {
      drop_lowest(members, result.capacity, [](size_t) { return 0; });
    }
  }
  keep_members(result, members, options.rule);
  weigh(result, choices, options.rule);
  return result;
}

std::vector<float> encode_tokens(const Gate& gate, std::span<const float> hidden, int64_t width) {
  DS_CHECK(narrow<int64_t>(hidden.size()) == gate.tokens * width,
           "encode_tokens: {} numbers for {} tokens of width {}", hidden.size(), gate.tokens,
           width);
  std::vector<float> buffers(to_size(gate.experts * gate.capacity * width), 0.0F);
  for (size_t i = 0; i < gate.expert.size(); ++i) {
    if (gate.expert[i] < 0) continue;
    const int64_t token = static_cast<int64_t>(i) % gate.tokens;
    const int64_t row = gate.expert[i] * gate.capacity + gate.slot[i];
    std::copy_n(hidden.begin() + token * width, width, buffers.begin() + row * width);
  }
  return buffers;
}

std::vector<float> decode_tokens(const Gate& gate, std::span<const float> expert_output,
                                 int64_t width) {
  DS_CHECK(narrow<int64_t>(expert_output.size()) == gate.experts * gate.capacity * width,
           "decode_tokens: {} numbers for {} experts of {} slots and width {}",
           expert_output.size(), gate.experts, gate.capacity, width);
  std::vector<float> out(to_size(gate.tokens * width), 0.0F);
  for (size_t i = 0; i < gate.expert.size(); ++i) {
    if (gate.expert[i] < 0) continue;
    const size_t token = i % to_size(gate.tokens);
    const size_t row = to_size(gate.expert[i] * gate.capacity + gate.slot[i]);
    for (size_t c = 0; c < to_size(width); ++c) {
      out[token * to_size(width) + c] += gate.weight[i] * expert_output[row * to_size(width) + c];
    }
  }
  return out;
}

}  // namespace ds
