#include "train/evaluate/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "core/status/failpoint.h"
#include "train/evaluate/class_counts.h"

namespace ds {

int64_t batches_of_evaluation(const SampleSet& samples, const BatchShape& shape, int64_t wanted) {
  const int64_t all = std::max<int64_t>(1, samples.size() / shape.global_batch());
  return wanted > 0 ? std::min(wanted, all) : all;
}

std::string unequal_evaluation(const SampleSet& samples, const BatchShape& shape, int64_t wanted) {
  const int64_t batch = shape.global_batch(), all = samples.size();
  if (wanted > 0 || all % batch == 0) return "";
  const std::string of =
      fmt::format("batches of {} (ranks times train_micro_batch_size_per_gpu)", batch);
  if (all < batch) {
    return fmt::format(
        "evaluations count some of the {} samples more than once, since they come in "
        "{}",
        all, of);
  }
  return fmt::format("evaluations leave out the last {} of {} samples, since they come in {}",
                     all % batch, all, of);
}

Evaluation::Evaluation(Engine& engine, RunReports& reports, const SampleSet& samples,
                       const Options& options)
    : engine_(engine),
      reports_(reports),
      options_(options),
      source_(make_sample_source(
          samples, Sampler(samples.size(), SampleOrder::kSequential, 0), options.shape,
          options.place,
          {.rules = options.rules,
           .seed = options.seed,
           .steps_of_mean = batches_of_evaluation(samples, options.shape, options.batches),
           .reference = options.reference})),
      batches_(batches_of_evaluation(samples, options.shape, options.batches)) {}

void Evaluation::after(int64_t steps_done, Metrics& metrics) {
  if (!due(steps_done)) return;
  const auto progress = [&](int64_t batches) {
    reports_.report_progress(
        {.step = steps_done, .micro_step = batches, .phase = "evaluate", .total = batches_});
  };
  progress(0);
  DS_FAILPOINT("train.evaluate");
  ClassCounts counts;
  const bool has_classes = options_.rules.scored && options_.rules.scored->values == 0;
  Metrics figures;
  loss_ = engine_.evaluate(*source_, batches_, progress, has_classes ? &counts : nullptr, &figures);
  metrics.set("validation_loss", *loss_);
  if (options_.rules.has_pairs) {
    metrics.set("validation_reward_accuracy", figures.at("reward_accuracy"));
    metrics.set("validation_reward_margin", figures.at("reward_margin"));
  }
  if (!has_classes) return;
  accuracy_ = share_of_right(engine_.host().gather(counts.counts()));
  metrics.set("validation_accuracy", *accuracy_);
}

void Evaluation::measure(Measured& measured) const {
  if (!loss_) return;
  measured.results["validation_loss"] = *loss_;
  if (accuracy_) measured.results["validation_accuracy"] = *accuracy_;
  if (options_.bytes_per_token <= 0) return;
  measured.results["validation_bits_per_byte"] =
      *loss_ / std::numbers::ln2 / options_.bytes_per_token;
}

}  // namespace ds
