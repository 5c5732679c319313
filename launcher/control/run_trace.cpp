#include "launcher/control/run_trace.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

const TraceStatus& RunTrace::begin(int64_t steps, std::vector<int> ranks, int world_size) {
  if (under_way()) {
    throw Unsupported(fmt::format("a trace of {} steps is under way already", status_.steps));
  }
  if (steps < 1 || steps > kMostSteps) {
    throw UsageError(fmt::format("a trace of {} steps: expected 1 to {}", steps, kMostSteps));
  }
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  for (const int rank : ranks) {
    if (rank < 0 || rank >= world_size) {
      throw UsageError(
          fmt::format("a trace of rank {}: the ranks are 0 to {}", rank, world_size - 1));
    }
  }
  if (ranks.empty()) {
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
  }
  status_ = {.number = status_.number + 1,
             .state = "recording",
             .steps = steps,
             .ranks = std::move(ranks),
             .reason = ""};
  parts_.assign(to_size(world_size), "");
  bytes_ = 0;
  return status_;
}

void RunTrace::require_under_way() const {
  if (!under_way()) throw Unsupported("no trace is under way");
}

std::optional<std::string> RunTrace::take(int rank, std::string_view text, bool last) {
  const bool awaited =
      std::ranges::count(status_.ranks, rank) > 0 && std::ranges::count(status_.ready, rank) == 0;
  if (!under_way() || !awaited) return std::nullopt;
  bytes_ += text.size();
  if (bytes_ > kMostBytes) {
    fail(fmt::format("it is larger than {} MiB: trace fewer steps or ranks", kMostBytes >> 20));
    return std::nullopt;
  }
  nth(parts_, rank) += text;
  if (!last) return std::nullopt;
  status_.ready.push_back(rank);
  if (status_.ready.size() < status_.ranks.size()) return std::nullopt;
  status_.state = "done";
  std::string all = fmt::format("{{\"trace\": {}}}\n", status_.number);
  for (const std::string& part : std::exchange(parts_, {})) all += part;
  return all;
}

void RunTrace::epoch_ended(std::string_view reason) {
  if (under_way()) fail(reason);
}

void RunTrace::fail(std::string_view reason) {
  status_.state = "failed";
  status_.reason = reason;
  parts_.clear();
}

}  // namespace ds
