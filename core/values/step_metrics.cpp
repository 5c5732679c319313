#include "core/values/step_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/status/error.h"

namespace ds {
namespace {

constexpr std::array kTable{
    // Mean over the global batch, before the update.
    MetricRow{.name = "loss",
              .if_absent = std::numeric_limits<double>::quiet_NaN(),
              .gauge = "dslaunch_loss",
              .help = "Mean loss over the last global batch.",
              .shown = "loss {:.4f}",
              .place = 1},
    // Before clipping; absent where it is not computed.
    MetricRow{.name = "grad_norm",
              .gauge = "dslaunch_gradient_norm",
              .help = "Norm of the last gradient, before clipping.",
              .shown = "norm {:.3g}",
              .place = 3},
    MetricRow{.name = "lr",
              .gauge = "dslaunch_learning_rate",
              .help = "Learning rate of the last step.",
              .shown = "lr {:.2e}",
              .place = 2},
    MetricRow{.name = "loss_scale",
              .gauge = "dslaunch_loss_scale",
              .help = "Loss scale of the last step.",
              .shown = "scale {:g}",
              .place = 4,
              .unsaid = 1},
    // These are tokens of all ranks together.
    MetricRow{.name = "tokens_per_s",
              .unit = MetricUnit::kTokensPerSecond,
              .gauge = "dslaunch_tokens_per_second",
              .help = "Tokens of all ranks per second in the last step.",
              .shown = "{} tok/s",
              .place = 6},
    // Consumed since step 0, of all ranks together.
    MetricRow{.name = "samples",
              .unit = MetricUnit::kSamples,
              .gauge = "dslaunch_samples",
              .help = "Samples consumed since step 0."},
    // Tracked peak of rank 0 so far, host and device together.
    MetricRow{.name = "bytes_peak",
              .unit = MetricUnit::kBytes,
              .in_files = MetricInFiles::kNever,
              .shown = "mem {}",
              .place = 7,
              .unsaid = 0},
    // This is present if the step ended with an evaluation.
    MetricRow{.name = "validation_loss",
              .in_files = MetricInFiles::kWherePresent,
              .shown = "validation loss {:.4f}",
              .place = 8},
    // Since step 0, because gradients overflowed at their loss scale; absent without one.
    MetricRow{.name = "skipped_steps",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_skipped_steps",
              .help = "Steps that left the weights alone because gradients overflowed.",
              .shown = "skipped {:g}",
              .place = 5,
              .unsaid = 0},
    // Passes over the training data: samples by how many one has.
    MetricRow{.name = "epoch",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_epoch",
              .help = "Passes over the training data, with a fraction."},
    // When the step ended, in seconds since 1970 by rank 0's clock.
    MetricRow{.name = "time",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_step_time_seconds",
              .help = "When the last step ended, in Unix time."},
    // This is that of the world that made the step: it rises with every restart and every launch
    // that goes on.
    MetricRow{.name = "generation", .in_files = MetricInFiles::kWherePresent},
    // This is how long samples were, if a curriculum says so.
    MetricRow{.name = "sequence_length",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_sequence_length",
              .help = "Tokens per sample of the last step, where a curriculum says it."},
    // The share of samples whose class was told, if the step ended with an evaluation of classes.
    MetricRow{.name = "validation_accuracy",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_validation_accuracy",
              .help = "Share of held-out samples whose class has the highest score.",
              .shown = "validation accuracy {:.4f}",
              .place = 9},
    // These are the parts of the loss, where it is the sum of several: that over masked tokens, and
    // that over pairs of texts.
    MetricRow{.name = "loss_masked_lm",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_loss_masked_lm",
              .help = "Loss over masked tokens of the last step.",
              .shown = "masked tokens {:.4f}",
              .place = 10},
    MetricRow{.name = "loss_next_sentence",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_loss_next_sentence",
              .help = "Loss over pairs of texts of the last step.",
              .shown = "next sentences {:.4f}",
              .place = 11},
    // What a preference loss says of its pairs: means over the samples of the step.
    MetricRow{.name = "reward_chosen",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_reward_chosen",
              .help = "Mean reward of the better answers of the last step."},
    MetricRow{.name = "reward_rejected",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_reward_rejected",
              .help = "Mean reward of the worse answers of the last step."},
    MetricRow{.name = "reward_accuracy",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_reward_accuracy",
              .help = "Share of pairs of the last step whose better answer has the larger reward.",
              .shown = "pairs right {:.3f}",
              .place = 12},
    MetricRow{.name = "reward_margin",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_reward_margin",
              .help = "Mean of what the better answer's reward is more than the other's.",
              .shown = "margin {:.3f}",
              .place = 13},
    MetricRow{.name = "validation_reward_accuracy",
              .in_files = MetricInFiles::kWherePresent,
              .shown = "validation pairs right {:.3f}",
              .place = 14},
    MetricRow{.name = "validation_reward_margin", .in_files = MetricInFiles::kWherePresent},
    // How far the model is from its teacher: in what it says of tokens, at the temperature, and in
    // the states of the blocks that are matched, weighed as in the loss.
    MetricRow{.name = "loss_distillation",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_loss_distillation",
              .help = "Divergence of the last step from the teacher.",
              .shown = "from teacher {:.4f}",
              .place = 15},
    MetricRow{.name = "loss_hidden",
              .in_files = MetricInFiles::kWherePresent,
              .gauge = "dslaunch_loss_hidden",
              .help = "Distance of the last step from the states of the teacher.",
              .shown = "states {:.4f}",
              .place = 16},
    // These say where the time of rank 0 went, in seconds: in the step, in the evaluation after it,
    // in pauses since the step before, and before the first step of an epoch.
    MetricRow{.name = "step_s", .in_files = MetricInFiles::kNever},
    MetricRow{.name = "evaluation_s", .in_files = MetricInFiles::kNever},
    MetricRow{.name = "paused_s", .in_files = MetricInFiles::kNever},
    MetricRow{.name = "starting_s", .in_files = MetricInFiles::kNever},
};

}  // namespace

std::span<const MetricRow> metric_table() { return kTable; }

const MetricRow* find_metric_row(std::string_view name) {
  const auto* const found = std::ranges::find(kTable, name, &MetricRow::name);
  return found == kTable.end() ? nullptr : found;
}

int64_t whole_value(double value) {
  constexpr double kMost = 0x1p62;  // far beyond what can be counted, and within the type
  return std::isnan(value) ? 0 : std::llrint(std::clamp(value, -kMost, kMost));
}

Metrics::Metrics(std::initializer_list<std::pair<std::string_view, double>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

const MetricRow& Metrics::row_of(std::string_view name) {
  const MetricRow* const row = find_metric_row(name);
  DS_CHECK(row != nullptr, "metrics: \"{}\" is not in the table", name);
  return *row;
}

void Metrics::set(std::string_view name, double value) {
  const MetricRow& row = row_of(name);
  const auto found = std::ranges::find(said_, &row, &Metric::row);
  if (found != said_.end()) {
    found->value = value;
  } else {
    said_.push_back({&row, value});
  }
}

std::optional<double> Metrics::said(const MetricRow& row) const {
  const auto found = std::ranges::find(said_, &row, &Metric::row);
  return found == said_.end() ? std::nullopt : std::optional(found->value);
}

std::optional<double> Metrics::find(const MetricRow& row) const {
  const std::optional<double> value = said(row);
  return value ? value : row.if_absent;
}

double Metrics::at(std::string_view name) const {
  return find(name).value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace ds
