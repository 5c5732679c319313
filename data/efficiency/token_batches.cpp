// Token-bound batching.
#include "data/efficiency/token_batches.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

using MicroBatch = std::vector<int64_t>;

std::vector<int64_t> usable_samples(std::span<const int64_t> lengths,
                                    const TokenBatchOptions& options) {
  std::vector<int64_t> samples;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] <= options.max_tokens) samples.push_back(static_cast<int64_t>(i));
  }
  if (options.order == PackingOrder::kByLength) {
    std::stable_sort(samples.begin(), samples.end(),
                     [&](int64_t a, int64_t b) { return nth(lengths, a) < nth(lengths, b); });
  }
  return samples;
}

bool fits(const MicroBatch& batch, std::span<const int64_t> lengths,
          const TokenBatchOptions& options) {
  const int64_t count = narrow<int64_t>(batch.size());
  if (count < options.min_batch_size ||
      (options.max_batch_size && count > *options.max_batch_size)) {
    return false;
  }
  int64_t tokens = 0;
  for (const int64_t sample : batch) tokens += nth(lengths, sample);
  return tokens <= options.max_tokens;
}

// samples[begin, end) dealt out to `ways` micro-batches in turn.
std::vector<MicroBatch> dealt(std::span<const int64_t> samples, size_t begin, size_t end,
                              size_t ways) {
  std::vector<MicroBatch> batches(ways);
  for (size_t i = begin; i < end; ++i) batches[(i - begin) % ways].push_back(samples[i]);
  return batches;
}

std::vector<MicroBatch> pack(std::span<const int64_t> samples, std::span<const int64_t> lengths,
                             const TokenBatchOptions& options) {
  const size_t ways =
      options.sizes == MicroBatchSizes::kEqual ? to_size(options.micro_batches_per_batch) : 1;
  std::vector<MicroBatch> packed;
  for (size_t begin = 0; begin < samples.size();) {
    std::vector<MicroBatch> best;
    size_t best_end = begin;
    int64_t tokens = 0;
    size_t counted = begin;
    for (size_t end = begin + ways; end < samples.size(); end += ways) {
      for (; counted < end; ++counted) tokens += nth(lengths, samples[counted]);
      // All micro-batches together can hold no more than this, however they are dealt.
      if (tokens > options.max_tokens * static_cast<int64_t>(ways)) break;
      std::vector<MicroBatch> batches = dealt(samples, begin, end, ways);
      const auto fit = [&](const MicroBatch& batch) { return fits(batch, lengths, options); };
      if (!std::all_of(batches.begin(), batches.end(), fit)) continue;
      best = std::move(batches);
      best_end = end;
    }
    if (best.empty()) break;
    std::move(best.begin(), best.end(), std::back_inserter(packed));
    begin = best_end;
  }
  return packed;
}

}  // namespace

std::vector<TokenBatch> token_batches(std::span<const int64_t> lengths,
                                      const TokenBatchOptions& options) {
  if (options.micro_batches_per_batch < 1 || options.max_tokens < 1) {
    throw ConfigError(fmt::format(
        "token batches: {} micro-batches a batch of at most {} tokens, expected at least 1",
        options.micro_batches_per_batch, options.max_tokens));
  }
  const std::vector<int64_t> samples = usable_samples(lengths, options);
  std::vector<MicroBatch> packed = pack(samples, lengths, options);
  const size_t per_batch = to_size(options.micro_batches_per_batch);
  std::vector<TokenBatch> batches;
  for (size_t i = 0; i + per_batch <= packed.size(); i += per_batch) {
    TokenBatch& batch = batches.emplace_back();
    for (size_t j = i; j < i + per_batch; ++j) {
      for (const int64_t sample : packed[j]) {
        ++batch.samples;
        batch.longest = std::max(batch.longest, nth(lengths, sample));
      }
      batch.micro_batches.push_back(std::move(packed[j]));
    }
  }
  if (batches.empty()) {
    throw ConfigError(fmt::format(
        "token batches: {} samples of at most {} tokens do not fill one batch of {} micro-batches "
        "with at least {} samples each",
        samples.size(), options.max_tokens, options.micro_batches_per_batch,
        options.min_batch_size));
  }
  return batches;
}

}  // namespace ds
