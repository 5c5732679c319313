#include "data/document_rows.h"

#include "core/status/error.h"

namespace ds {
namespace {

constexpr int32_t kNoTarget = -1;

// visit(t, begin) of each token, with the place where its document begins.
template <class Visit>
void each_row(std::span<const int32_t> tokens, int32_t end, const Visit& visit) {
  size_t begin = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    visit(t, begin);
    if (tokens[t] == end) begin = t + 1;
  }
}

}  // namespace

void write_document_positions(std::span<const int32_t> tokens, int32_t end,
                              std::span<int32_t> positions) {
  DS_CHECK(positions.size() == tokens.size(), "documents: {} positions of {} tokens",
           positions.size(), tokens.size());
  each_row(tokens, end,
           [&](size_t t, size_t begin) { positions[t] = static_cast<int32_t>(t - begin); });
}

void write_document_ranges(std::span<const int32_t> tokens, int32_t end,
                           std::span<int32_t> ranges) {
  DS_CHECK(ranges.size() == 2 * tokens.size(), "documents: {} numbers of {} ranges", ranges.size(),
           tokens.size());
  each_row(tokens, end,
           [&](size_t t, size_t begin) { ranges[2 * t] = static_cast<int32_t>(begin); });
  size_t behind = tokens.size();
  for (size_t t = tokens.size(); t-- > 0;) {
    if (tokens[t] == end) behind = t + 1;
    ranges[2 * t + 1] = static_cast<int32_t>(behind);
  }
}

void ignore_targets_of_ends(std::span<const int32_t> tokens, int32_t end,
                            std::span<int32_t> targets) {
  DS_CHECK(targets.size() == tokens.size(), "documents: {} targets of {} tokens", targets.size(),
           tokens.size());
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] == end) targets[t] = kNoTarget;
  }
}

}  // namespace ds
