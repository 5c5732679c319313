#include "zero/zenflow/column_choice.h"

#include <algorithm>

#include "core/values/index.h"
#include "zero/zenflow/columns.h"

namespace ds {
namespace {

// In a row of numbers in fp32, after the columns; counts in two numbers, because one has 24 bits.
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

class ChosenColumns final : public ColumnChoice {
 public:
  ChosenColumns(const ZenflowOptions& options, std::span<const ZenflowMatrix> matrices)
      : ColumnChoice(options, matrices), sizes_(matrices.size()) {
    DS_CHECK(options.select_epochs == 0, "zenflow: columns are chosen every {} epochs",
             options.select_epochs);
    for (const ZenflowMatrix& matrix : matrices) chosen_.emplace_back(to_size(matrix.columns), 0);
  }

  void begin_update(int64_t /*number*/) override {}

  void choose(const ColumnSums& sums, std::span<const double> squares) override {
    for (size_t m = 0; m < matrices_.size(); ++m) {
      chosen_[m] = choose_columns(sums.of(squares, narrow<int>(m)), matrices_[m].chosen);
    }
    has_columns_ = true;
  }
  void forget() override { has_columns_ = false; }
  void place(ImportantPart& part) const override {
    part.choose(matrices_,
                [this](int matrix) -> std::span<const uint8_t> { return nth(chosen_, matrix); });
  }

  void add(float scale, const ColumnSums& sums, std::span<const double> squares) override {
    ++waiting_;
    if (options_.update_every) return;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      const GradientSizes sizes =
          sizes_of(sums.of(squares, narrow<int>(m)), chosen_[m], matrices_[m].rows);
      sizes_[m].important += scale * sizes.important;
      sizes_[m].rest += scale * sizes.rest;
    }
  }
  void end_interval() override {
    waiting_ = 0;
    std::ranges::fill(sizes_, GradientSizes{});
  }

  void write(std::span<const Tensor> auxiliary, Stream& stream) const override {
    const int64_t high = updates_ / kHalf;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      std::vector<float> row(chosen_[m].begin(), chosen_[m].end());
      row.resize(row.size() + kPlaces);
      float* const after = row.data() + matrices_[m].columns;
      after[kHasColumns] = has_columns_ ? 1 : 0;
      after[kUpdatesHigh] = static_cast<float>(high);
      after[kUpdatesLow] = static_cast<float>(updates_ % kHalf);
      after[kWaiting] = static_cast<float>(waiting_);
      after[kImportant] = sizes_[m].important;
      after[kRest] = sizes_[m].rest;
      stream.copy(row.data(), nth(auxiliary, m).address(), row.size() * sizeof(float));
      stream.synchronize();
    }
  }
  bool read(std::span<const Tensor> auxiliary, Stream& stream) override {
    for (size_t m = 0; m < matrices_.size(); ++m) {
      std::vector<float> row(to_size(matrices_[m].columns + kPlaces));
      stream.copy(nth(auxiliary, m).address(), row.data(), row.size() * sizeof(float));
      stream.synchronize();
      std::ranges::transform(std::span(row).first(chosen_[m].size()), chosen_[m].begin(),
                             [](float is) { return is != 0 ? uint8_t{1} : uint8_t{0}; });
      const float* const after = row.data() + matrices_[m].columns;
      has_columns_ = after[kHasColumns] != 0;
      updates_ = static_cast<int64_t>(after[kUpdatesHigh]) * kHalf +
                 static_cast<int64_t>(after[kUpdatesLow]);
      waiting_ = static_cast<int64_t>(after[kWaiting]);
      sizes_[m] = {.important = after[kImportant], .rest = after[kRest]};
    }
    return has_columns_;
  }

 private:
  // As DeepSpeed has it: what has added up in the rest is compared with what is important in one
  // update.
  bool is_due() const override {
    if (options_.update_every) return false;
    int64_t due = 0, all = 0;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      if (!matrices_[m].has_rest()) continue;
      ++all;
      due += sizes_[m].rest >= sizes_[m].important / static_cast<float>(waiting_) ? 1 : 0;
    }
    return due >= static_cast<int64_t>(options_.auto_ratio * static_cast<double>(all));
  }

  std::vector<std::vector<uint8_t>> chosen_;  // of each matrix
  // These sizes of a matrix's gradients are sums over updates since the rest was updated last.
  std::vector<GradientSizes> sizes_;
};

class MetaColumns final : public ColumnChoice {
 public:
  MetaColumns(const ZenflowOptions& options, std::span<const ZenflowMatrix> matrices)
      : ColumnChoice(options, matrices) {
    has_columns_ = true;
  }

  void begin_update(int64_t number) override { updates_ = number - 1; }
  void choose(const ColumnSums& /*sums*/, std::span<const double> /*squares*/) override {}
  void forget() override {}
  void place(ImportantPart& /*part*/) const override {}
  void add(float /*scale*/, const ColumnSums& /*sums*/,
           std::span<const double> /*squares*/) override {
    ++waiting_;
  }
  void end_interval() override { waiting_ = 0; }
  void write(std::span<const Tensor> /*auxiliary*/, Stream& /*stream*/) const override {}
  bool read(std::span<const Tensor> /*auxiliary*/, Stream& /*stream*/) override { return false; }

 private:
  bool is_due() const override { return false; }
};

}  // namespace

ColumnChoice::ColumnChoice(const ZenflowOptions& options, std::span<const ZenflowMatrix> matrices)
    : options_(options), matrices_(matrices) {
  DS_CHECK(options_.topk_ratio > 0 && options_.topk_ratio <= 1, "zenflow: {} of the columns",
           options_.topk_ratio);
}

std::vector<AuxiliarySpec> ColumnChoice::auxiliary(const char* name) const {
  std::vector<AuxiliarySpec> specs;
  for (const ZenflowMatrix& matrix : matrices_) {
    specs.push_back({.name = name,
                     .param = matrix.param,
                     .numel = matrix.columns + kPlaces,
                     .scope = AuxiliaryScope::kShared});
  }
  return specs;
}

std::unique_ptr<ColumnChoice> make_column_choice(const ZenflowOptions& options,
                                                 std::span<const ZenflowMatrix> matrices,
                                                 const Stream& stream) {
  if (stream.device().is_meta()) return std::make_unique<MetaColumns>(options, matrices);
  return std::make_unique<ChosenColumns>(options, matrices);
}

}  // namespace ds
