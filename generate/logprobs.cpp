#include "generate/logprobs.h"

#include <algorithm>
#include <cmath>

#include "core/values/index.h"

namespace ds {
namespace {

// log sum_j exp(l_j) in fp64 as two summands, the greatest logit and the rest: nothing overflows,
// and a large logit does not swallow the rest.
struct LogSum {
  double highest;
  double rest;
};
LogSum log_sum_exp(std::span<const float> logits) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return {highest, std::log(sum)};
}

}  // namespace

DrawnToken with_logprobs(int32_t token, std::span<const float> logits, int64_t count,
                         std::span<const int32_t> never) {
  const LogSum all = log_sum_exp(logits);
  const auto logprob_of = [&](int32_t id) {
    return static_cast<float>(nth(logits, id) - all.highest - all.rest);
  };
  DrawnToken out{.id = token, .logprob = logprob_of(token)};
  if (count == 0) return out;
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < narrow<int32_t>(logits.size()); ++id) {
    if (std::isfinite(nth(logits, id)) && !std::ranges::binary_search(never, id)) ids.push_back(id);
  }
  const auto is_likelier = [&](int32_t a, int32_t b) {
    return nth(logits, a) > nth(logits, b) || (nth(logits, a) == nth(logits, b) && a < b);
  };
  const size_t kept = std::min(to_size(count), ids.size());
  std::ranges::partial_sort(ids, ids.begin() + narrow<std::ptrdiff_t>(kept), is_likelier);
  for (size_t i = 0; i < kept; ++i) out.top.push_back({ids[i], logprob_of(ids[i])});
  return out;
}

}  // namespace ds
