// What of ZenFlow is no number per weight: which columns are important, and how far the interval
// has come. One row of numbers for each matrix, in fp32.
#include <algorithm>

#include "core/values/index.h"
#include "zero/zenflow/zenflow_state_store.h"

namespace ds {
namespace {

// After the columns; counts in two numbers, because one has 24 bits.
enum Place : uint8_t {
  kHasColumns,
  kUpdatesHigh,
  kUpdatesLow,
  kWaiting,
  kImportant,
  kRest,
  kPlaces
};
constexpr int64_t kHalf = int64_t{1} << 20;

}  // namespace

std::vector<AuxiliarySpec> ZenflowStateStore::auxiliary() const {
  std::vector<AuxiliarySpec> specs;
  for (const ZenflowMatrix& matrix : matrices_) {
    specs.push_back({.name = kColumnsState,
                     .param = matrix.param,
                     .numel = matrix.columns + kPlaces,
                     .scope = AuxiliaryScope::kShared});
  }
  return specs;
}

void ZenflowStateStore::write_auxiliary(std::span<const Tensor> auxiliary) {
  if (is_meta()) return;
  for (size_t m = 0; m < matrices_.size(); ++m) {
    std::vector<float> row(chosen_[m].begin(), chosen_[m].end());
    row.resize(row.size() + kPlaces);
    float* const after = row.data() + matrices_[m].columns;
    after[kHasColumns] = has_columns_ ? 1 : 0;
    after[kUpdatesHigh] = static_cast<float>(updates_ / kHalf);
    after[kUpdatesLow] = static_cast<float>(updates_ % kHalf);
    after[kWaiting] = static_cast<float>(waiting_);
    after[kImportant] = sizes_[m].important;
    after[kRest] = sizes_[m].rest;
    compute_.copy(row.data(), nth(auxiliary, m).address(), row.size() * sizeof(float));
    compute_.synchronize();
  }
}

void ZenflowStateStore::read_extras(std::span<const Tensor> auxiliary) {
  if (is_meta()) return;
  for (size_t m = 0; m < matrices_.size(); ++m) {
    std::vector<float> row(to_size(matrices_[m].columns + kPlaces));
    compute_.copy(nth(auxiliary, m).address(), row.data(), row.size() * sizeof(float));
    compute_.synchronize();
    std::ranges::transform(std::span(row).first(chosen_[m].size()), chosen_[m].begin(),
                           [](float is) { return is != 0 ? uint8_t{1} : uint8_t{0}; });
    const float* const after = row.data() + matrices_[m].columns;
    has_columns_ = after[kHasColumns] != 0;
    updates_ = static_cast<int64_t>(after[kUpdatesHigh]) * kHalf +
               static_cast<int64_t>(after[kUpdatesLow]);
    waiting_ = static_cast<int64_t>(after[kWaiting]);
    sizes_[m] = {.important = after[kImportant], .rest = after[kRest]};
  }
  if (!has_columns_) return;
  choose_places();
  take_back();
  for (const Slice& slice : slices_) slice.important->show();
}

}  // namespace ds
