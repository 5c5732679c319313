#include "train/evaluate/class_counts.h"

#include <algorithm>

#include "core/values/index.h"

namespace ds {

void ClassCounts::on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                            const Tensor& /*values*/) {
  std::vector<float> values(to_size(scores.numel()));
  std::vector<int32_t> classes(to_size(targets.numel()));
  stream.copy(scores.address(), values.data(), scores.bytes());
  stream.copy(targets.address(), classes.data(), targets.bytes());
  stream.synchronize();
  const auto width = scores.shape()[1];
  tallies_.resize(to_size(width));
  for (int64_t row = 0; row < std::ssize(classes); ++row) {
    const int32_t wanted = nth(classes, row);
    if (wanted < 0) continue;
    const auto begin = values.begin() + row * width;
    const int64_t predicted = std::max_element(begin, begin + width) - begin;
    ++nth(tallies_, wanted).scored;
    ++nth(tallies_, predicted).predicted;
    if (predicted == wanted) ++nth(tallies_, wanted).right;
  }
}

std::vector<int64_t> ClassCounts::counts() const {
  int64_t scored = 0, right = 0;
  for (const ClassTally& tally : tallies_) {
    scored += tally.scored;
    right += tally.right;
  }
  return {scored, right};
}

double share_of_right(std::span<const int64_t> counts) {
  int64_t scored = 0, right = 0;
  for (size_t i = 0; i + 1 < counts.size(); i += 2) {
    scored += counts[i];
    right += counts[i + 1];
  }
  return scored == 0 ? 0 : static_cast<double>(right) / static_cast<double>(scored);
}

}  // namespace ds
