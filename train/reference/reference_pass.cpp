#include "train/reference/reference_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "train/batches/supervised_source.h"

namespace ds {
namespace {

// The wanted samples, a micro-batch for each rank and step. A sample has the same row in any list,
// by its number: the last bits of what is computed of it may differ from row to row.
class WantedPairs final : public BatchSource {
 public:
  WantedPairs(const ReferencePass& pass, int64_t micro_batch, int64_t ranks)
      : pass_(pass), ranks_(ranks), of_row_(to_size(micro_batch)) {
    for (const int64_t sample : pass.wanted) nth(of_row_, sample % micro_batch).push_back(sample);
  }

  int64_t batches() const {
    const auto longest = std::ranges::max_element(of_row_, {}, &std::vector<int64_t>::size);
    return (std::ssize(*longest) + ranks_ - 1) / ranks_;
  }
  // The sample in a row of this rank's batch; nothing: no more are wanted there.
  std::optional<int64_t> sample_at(int64_t batch, int64_t row) const {
    const std::vector<int64_t>& samples = nth(of_row_, row);
    const int64_t place = batch * ranks_ + pass_.place.rank;
    return place < std::ssize(samples) ? std::optional(nth(samples, place)) : std::nullopt;
  }

  void fill(int64_t step, int /*micro_step*/, const MicroBatch& batch) override {
    const int64_t each = pass_.samples.sequence_length();
    std::vector<int32_t> numbers;
    std::vector<int32_t> read(to_size(each + 1));  // a sample ends with the first of the next one
    const int64_t rows = std::ssize(of_row_);
    for (int64_t row = 0; row < rows; ++row) {
      pass_.samples.read(sample_at(step, row).value_or(pass_.wanted.front()), read);
      numbers.insert(numbers.end(), read.begin(), read.begin() + each);
    }
    fill_supervised(numbers, rows, pass_.place, batch);
    if (batch.has(batch_field::kReference)) {
      std::ranges::fill(batch.values<double>(batch_field::kReference), 0.0);
    }
  }
  int64_t first_sample(int /*micro_step*/) const override { return 0; }  // nothing is dropped

 private:
  const ReferencePass& pass_;
  const int64_t ranks_;
  std::vector<std::vector<int64_t>> of_row_;  // of a micro-batch: the samples
};

struct WireScore {
  int64_t sample = 0;
  ReferenceScores::Pair pair{};
};

// Takes what kernels::preference_sums() makes of each batch.
class ScoreList final : public ScoreObserver {
 public:
  explicit ScoreList(const WantedPairs& source) : source_(source) {}

  void on_scores(Stream& stream, const Tensor& sums, const Tensor& /*targets*/,
                 const Tensor& /*values*/) override {
    std::vector<double> numbers(to_size(sums.numel()));
    stream.copy(sums.address(), numbers.data(), sums.bytes());
    stream.synchronize();
    const int64_t width = sums.shape()[1];
    for (int64_t row = 0; row < sums.shape()[0]; ++row) {
      const std::optional<int64_t> sample = source_.sample_at(batch_, row);
      if (!sample) continue;
      const double* const of_row = numbers.data() + row * width;
      list_.push_back({.sample = *sample, .pair = {of_row[0], of_row[1]}});
    }
    ++batch_;
  }
  std::vector<WireScore> take() { return std::move(list_); }

 private:
  const WantedPairs& source_;
  int64_t batch_ = 0;
  std::vector<WireScore> list_;
};

}  // namespace

void score_references(Engine& engine, const ReferencePass& pass, ReferenceScores& scores,
                      const std::function<void(int64_t done, int64_t of)>& on_batch) {
  if (pass.wanted.empty()) return;
  WantedPairs source(pass, engine.options().micro_batch, engine.mesh().size(Axis::kData));
  ScoreList own(source);
  const int64_t batches = source.batches();
  engine.evaluate(
      source, batches, [&](int64_t done) { on_batch(done, batches); }, &own);
  for (const std::vector<WireScore>& of_rank : engine.host().gather_lists(own.take())) {
    for (const WireScore& score : of_rank) {
      if (!std::isfinite(score.pair[0]) || !std::isfinite(score.pair[1])) {
        throw ValidationError(fmt::format(
            "reference: the log probabilities of {} are {} and {}, which are not both finite: its "
            "weights are no model's",
            pass.samples.locate(score.sample), score.pair[0], score.pair[1]));
      }
      scores.set(score.sample, score.pair);
    }
  }
}

}  // namespace ds
