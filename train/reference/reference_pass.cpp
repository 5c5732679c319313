#include "train/reference/reference_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/batches/supervised_source.h"

namespace ds {
namespace {

// The wanted samples in their order, a micro-batch for each rank and step; the last one is repeated
// until the last batch is whole.
class WantedPairs final : public BatchSource {
 public:
  WantedPairs(const ReferencePass& pass, int64_t micro_batch, int64_t ranks)
      : pass_(pass), micro_batch_(micro_batch), ranks_(ranks) {}

  int64_t batches() const {
    const int64_t whole = micro_batch_ * ranks_;
    return (std::ssize(pass_.wanted) + whole - 1) / whole;
  }
  // The place in the list of a sample of this rank's batch; none is after the last one.
  int64_t place_of(int64_t batch, int64_t row) const {
    const int64_t place = (batch * ranks_ + pass_.place.rank) * micro_batch_ + row;
    return std::min(place, std::ssize(pass_.wanted) - 1);
  }

  void fill(int64_t step, int /*micro_step*/, const MicroBatch& batch) override {
    const int64_t each = pass_.samples.sequence_length();
    std::vector<int32_t> numbers;
    std::vector<int32_t> read(to_size(each + 1));  // a sample ends with the first of the next one
    for (int64_t row = 0; row < micro_batch_; ++row) {
      pass_.samples.read(nth(pass_.wanted, place_of(step, row)), read);
      numbers.insert(numbers.end(), read.begin(), read.begin() + each);
    }
    fill_supervised(numbers, micro_batch_, pass_.place, batch);
    if (batch.has(batch_field::kReference)) {
      std::ranges::fill(batch.values<double>(batch_field::kReference), 0.0);
    }
  }
  int64_t first_sample(int /*micro_step*/) const override { return place_of(0, 0); }

 private:
  const ReferencePass& pass_;
  const int64_t micro_batch_, ranks_;
};

struct WireScore {
  int64_t place = 0;  // in the list of what is wanted
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
      const double* const of_row = numbers.data() + row * width;
      list_.push_back({.place = source_.place_of(batch_, row), .pair = {of_row[0], of_row[1]}});
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
      const int64_t sample = nth(pass.wanted, score.place);
      if (!std::isfinite(score.pair[0]) || !std::isfinite(score.pair[1])) {
        throw ValidationError(fmt::format(
            "reference: the log probabilities of {} are {} and {}, which are not both finite: its "
            "weights are no model's",
            pass.samples.locate(sample), score.pair[0], score.pair[1]));
      }
      scores.set(sample, score.pair);
    }
  }
}

}  // namespace ds
