// Token-bound batching (pure): samples of different lengths grouped so that no micro-batch holds
// more than so many tokens. The batch size then varies; optim/batch_lr adapts the learning rate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ds {

enum class PackingOrder { kGiven, kByLength };
// Whether all micro-batches of a batch hold equally many samples (ranks that must step alike).
enum class MicroBatchSizes { kFree, kEqual };

struct TokenBatchOptions {
  int64_t max_tokens = 0;      // per micro-batch
  int64_t min_batch_size = 1;  // samples per micro-batch
  std::optional<int64_t> max_batch_size = std::nullopt;
  int64_t micro_batches_per_batch = 1;
  MicroBatchSizes sizes = MicroBatchSizes::kFree;
  PackingOrder order = PackingOrder::kGiven;
};

struct TokenBatch {
  std::vector<std::vector<int64_t>> micro_batches;  // sample numbers
  int64_t samples = 0;
  int64_t longest = 0;  // tokens of its longest sample
};

// Samples longer than max_tokens are left out. Each step takes the longest run of samples that
// keeps its micro-batches (one, or one batch's worth dealt out in turn for kEqual) within the
// limits, never reaching the last sample; micro-batches that do not fill a batch are dropped.
// Throws ConfigError when not one batch comes out or an option is out of range.
std::vector<TokenBatch> token_batches(std::span<const int64_t> lengths,
                                      const TokenBatchOptions& options);

}  // namespace ds
