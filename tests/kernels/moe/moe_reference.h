// The fp64 reference of kernels/moe, and what its tests share: plain loops over flat vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/moe/expert_order.h"
#include "kernels/moe/route.h"
#include "tests/support/reference.h"

namespace ds::reference {

using Ints = std::vector<int32_t>;

inline Ints ints_of(const Tensor& tensor) {
  const Tensor host = testing::host_copy(tensor);
  const auto* const values = host.data<int32_t>();
  return {values, values + host.numel()};
}

inline Tensor ints(const Ints& values, Stream& stream) {
  return testing::upload(values, {static_cast<int64_t>(values.size())}, stream);
}

inline Tensor room_for_ints(int64_t count, Stream& stream) {
  return testing::upload(Ints(static_cast<size_t>(count), 77), {count}, stream);
}

// Scores of one token.
inline Values router_scores(const kernels::RouteRule& rule, const Values& logits) {
  Values scores;
  if (rule.score == kernels::RouterScore::kSigmoid) {
    for (const double x : logits) scores.push_back(1 / (1 + std::exp(-x)));
    return scores;
  }
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - top);
  for (const double x : logits) scores.push_back(std::exp(x - top) / sum);
  return scores;
}

// Indices of the largest, best first, equal ones by index.
inline Ints largest_first(const Values& values) {
  Ints order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return order;
}

// The experts of one token; bias may be empty.
inline Ints router_choice(const kernels::RouteRule& rule, const Values& logits,
                          const Values& bias) {
  const bool sums = rule.groups > 1 && rule.group_score == kernels::GroupScore::kSumOfTwo;
  Values ranks = !bias.empty() || sums ? router_scores(rule, logits) : logits;
  for (size_t e = 0; e < bias.size(); ++e) ranks[e] += bias[e];
  const auto size = static_cast<size_t>(rule.experts / rule.groups);
  Values of_groups;
  for (size_t g = 0; g < static_cast<size_t>(rule.groups); ++g) {
    Values in_group(ranks.begin() + static_cast<int64_t>(g * size),
                    ranks.begin() + static_cast<int64_t>((g + 1) * size));
    std::ranges::sort(in_group, std::greater<>());
    of_groups.push_back(sums ? in_group[0] + in_group[1] : in_group[0]);
  }
  Ints groups = largest_first(of_groups);
  groups.resize(static_cast<size_t>(rule.limited_groups));
  Ints experts;
  for (const int32_t e : largest_first(ranks)) {
    const auto group = static_cast<int32_t>(static_cast<size_t>(e) / size);
    if (std::ranges::find(groups, group) != groups.end()) experts.push_back(e);
  }
  experts.resize(static_cast<size_t>(rule.choices));
  return experts;
}

// The weights of one token's choices, -1 for those that were dropped.
inline Values router_weights(const kernels::RouteRule& rule, const Values& scores,
                             const Ints& experts) {
  using kernels::WeightSum;
  double sum = 0;
  for (const int32_t e : experts) sum += e < 0 ? 0 : scores[static_cast<size_t>(e)];
  if (rule.weight_sum == WeightSum::kOneClamped) sum = std::max(sum, 0x1p-23);
  if (rule.weight_sum == WeightSum::kOneWithEpsilon) sum += 1e-20;
  Values weights;
  for (const int32_t e : experts) {
    const double score = e < 0 ? 0 : scores[static_cast<size_t>(e)];
    const double share = rule.weight_sum == WeightSum::kAsIs ? score : score / sum;
    weights.push_back(e < 0 ? 0 : share * static_cast<double>(rule.scale));
  }
  return weights;
}

template <class T>
std::vector<T> row_of(const std::vector<T>& all, int64_t row, int64_t columns) {
  return {all.begin() + row * columns, all.begin() + (row + 1) * columns};
}

// A stable sort of choices by expert, as ExpertOrder has it.
struct SortedChoices {
  Ints counts, offsets, order, place;
};
inline SortedChoices sorted_choices(const Ints& experts, int64_t choices, int64_t count,
                                    kernels::ChoiceOrder by) {
  SortedChoices to{.counts = Ints(static_cast<size_t>(count), 0),
                   .offsets = {0},
                   .order = {},
                   .place = Ints(experts.size(), -1)};
  const int64_t tokens = static_cast<int64_t>(experts.size()) / choices;
  Ints walk;
  for (int64_t i = 0; i < tokens * choices; ++i) {
    const int64_t at = by == kernels::ChoiceOrder::kByToken ? i : i % tokens * choices + i / tokens;
    walk.push_back(static_cast<int32_t>(at));
  }
  for (int32_t e = 0; e < count; ++e) {
    for (const int32_t choice : walk) {
      if (experts[static_cast<size_t>(choice)] != e) continue;
      to.place[static_cast<size_t>(choice)] = static_cast<int32_t>(to.order.size());
      to.order.push_back(choice);
      ++to.counts[static_cast<size_t>(e)];
    }
    to.offsets.push_back(static_cast<int32_t>(to.order.size()));
  }
  to.order.resize(experts.size(), -1);
  return to;
}

inline kernels::ExpertOrder room_for_order(int64_t choices, int64_t experts, Stream& stream) {
  return {.counts = room_for_ints(experts, stream),
          .offsets = room_for_ints(experts + 1, stream),
          .order = room_for_ints(choices, stream),
          .place = room_for_ints(choices, stream)};
}

// Experts of choices as routers make them, some of them dropped: -1 for one of `drop`, if that is
// not 0.
inline Ints random_experts(int64_t choices, int64_t experts, int drop, uint64_t seed) {
  const Rng rng(seed, "experts");
  Ints out;
  for (int64_t i = 0; i < choices; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const bool is_dropped =
        drop > 0 && rng.uniform(2 * index + 1) < 1.0F / static_cast<float>(drop);
    const auto expert = static_cast<int32_t>(rng.uniform(2 * index) * static_cast<float>(experts));
    out.push_back(is_dropped ? -1 : std::min(expert, static_cast<int32_t>(experts) - 1));
  }
  return out;
}

}  // namespace ds::reference
