#include "launcher/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/values/number_text.h"

namespace ds {

std::string format_bytes(int64_t bytes) {
  const auto [value, unit] = scale_bytes(static_cast<double>(bytes));
  return bytes < 1024 || value >= 99.95 ? fmt::format("{:.0f} {}", value, unit)
                                        : fmt::format("{:.1f} {}", value, unit);
}

std::string format_rate(double per_second) {
  if (per_second < 1000) {
    return fmt::format("{:.0f}", per_second);
  }
  return per_second < 1e6 ? fmt::format("{:.1f}k", per_second / 1e3)
                          : fmt::format("{:.1f}M", per_second / 1e6);
}

namespace {

// "loss 3.412", "mem 412 MiB"
std::string shown_metric(const MetricRow& row, double value) {
  switch (row.unit) {
    case MetricUnit::kBytes:
      return fmt::format(fmt::runtime(row.shown), format_bytes(whole_value(value)));
    case MetricUnit::kTokensPerSecond:
      return fmt::format(fmt::runtime(row.shown), format_rate(value));
    case MetricUnit::kSamples:
    case MetricUnit::kNone:
      break;
  }
  return fmt::format(fmt::runtime(row.shown), value);
}

// The rows that the line of a step has, in its order.
std::vector<const MetricRow*> rows_of_line() {
  std::vector<const MetricRow*> out;
  for (const MetricRow& row : metric_table()) {
    if (row.place > 0) out.push_back(&row);
  }
  std::ranges::sort(out, {}, &MetricRow::place);
  return out;
}

}  // namespace

std::vector<std::string> metric_words(const StepMetrics& metrics) {
  static const std::vector<const MetricRow*> kRows = rows_of_line();
  std::vector<std::string> words;
  for (const MetricRow* row : kRows) {
    const std::optional<double> value = metrics.values.find(*row);
    if (value && value != row->unsaid) words.push_back(shown_metric(*row, *value));
  }
  return words;
}

std::string figures_within(const StepMetrics& metrics, size_t columns) {
  std::string line;
  for (const std::string& word : metric_words(metrics)) {
    const std::string_view gap = line.empty() ? "" : "  ";
    if (line.size() + gap.size() + word.size() > columns) break;
    line += gap;
    line += word;
  }
  return line;
}

std::string step_line(const StepMetrics& metrics, std::optional<Time> left) {
  return step_line_within(metrics, left, std::string::npos);
}

std::string step_line_within(const StepMetrics& metrics, std::optional<Time> left, size_t columns) {
  std::string line = fmt::format("step {}", metrics.step);
  if (metrics.total_steps > 0) line += fmt::format("/{}", metrics.total_steps);
  const std::string end = left ? fmt::format("  ETA {}", format_duration(*left)) : "";
  const size_t taken = line.size() + 2 + end.size();
  const std::string figures = figures_within(metrics, columns - std::min(columns, taken));
  return line + (figures.empty() ? "" : "  ") + figures + end;
}

std::string last_line(const StepMetrics& last, const std::optional<StepMetrics>& validated) {
  constexpr const char* kLoss = "validation_loss";
  const std::string line = step_line(last, std::nullopt);
  if (last.values.has(kLoss) || !validated) return line;
  return fmt::format("{}  {} (step {})", line,
                     shown_metric(*find_metric_row(kLoss), validated->values.at(kLoss)),
                     validated->step);
}

std::optional<std::string> phase_line(const RankProgress& progress,
                                      const std::optional<StepMetrics>& last) {
  struct Words {
    std::string_view phase, text;
  };
  static constexpr std::array kWords{Words{"plan", "planning"},
                                     Words{"tokenize", "tokenizing"},
                                     Words{"load", "loading"},
                                     Words{"reference", "asking the reference"},
                                     Words{"evaluate", "evaluating"},
                                     Words{"save", "saving"},
                                     Words{"export", "writing the model"},
                                     Words{"paused", "paused"},
                                     Words{"replay", "replaying a step"},
                                     Words{"sample", "going on with the prompt"}};
  const auto found = std::ranges::find(kWords, progress.phase, &Words::phase);
  if (found == kWords.end()) return std::nullopt;
  std::string line = last ? fmt::format("step {}/{}  ", last->step, last->total_steps) : "";
  line += found->text;
  if (const std::string count = count_of(progress); !count.empty()) line += ", " + count;
  return line;
}

// There is one after the last step, too.
Time PaceEstimate::of_evaluations(int64_t step, int64_t total_steps) const {
  if (evaluated_every_ == 0) return Time{};
  const int64_t since = (step - evaluated_step_) / evaluated_every_;
  const int64_t all = (total_steps - evaluated_step_ + evaluated_every_ - 1) / evaluated_every_;
  return evaluation_ * std::max<int64_t>(0, all - since);
}

std::optional<Time> PaceEstimate::update(Time now, int64_t step, int64_t total_steps,
                                         std::optional<Time> evaluation) {
  constexpr size_t kMostMarks = 256;
  if (evaluation) {
    evaluated_every_ = step > evaluated_step_ ? step - evaluated_step_ : evaluated_every_;
    evaluated_step_ = step;
    evaluation_ = *evaluation;
    evaluated_ += *evaluation;
  }
  now -= evaluated_;
  if (!marks_.empty() && step <= marks_.back().step) marks_.clear();  // an epoch began further back
  if (marks_.size() == kMostMarks) {                                  // every second one will do
    for (size_t i = 1; 2 * i < marks_.size(); ++i) marks_[i] = marks_[2 * i];
    marks_.resize(kMostMarks / 2);
  }
  marks_.push_back({now, step});
  const int64_t middle = (marks_.front().step + step) / 2;
  const auto from = std::ranges::lower_bound(marks_, middle, {}, &Mark::step);
  if (from->step == step || step >= total_steps) return std::nullopt;
  const std::chrono::duration<double> passed = now - from->at;
  const auto steps = static_cast<double>(step - from->step);
  return std::chrono::duration_cast<Time>(passed / steps *
                                          static_cast<double>(total_steps - step)) +
         of_evaluations(step, total_steps);
}

bool PrintPolicy::wants(Time now, int64_t step, int64_t total_steps) {
  constexpr Time kLongest = std::chrono::seconds(10);
  const bool due = !last_ || step == total_steps ||
                   (steps_per_print_ > 0 && step % steps_per_print_ == 0) ||
                   now - *last_ >= kLongest;
  if (due) {
    last_ = now;
  }
  return due;
}

}  // namespace ds
