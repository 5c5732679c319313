#include "launcher/show/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/number_text.h"

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

std::string step_line(const control::StepMetrics& metrics, std::optional<Time> left) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}", metrics.step(),
                                 metrics.total_steps(), metrics.loss(), metrics.lr());
  if (metrics.has_grad_norm()) {
    line += fmt::format("  norm {:.3g}", metrics.grad_norm());
  }
  if (metrics.loss_scale() != 1) {
    line += fmt::format("  scale {:g}", metrics.loss_scale());
  }
  line += fmt::format("  {} tok/s", format_rate(metrics.tokens_per_s()));
  if (metrics.bytes_peak() > 0) {
    line += fmt::format("  mem {}", format_bytes(metrics.bytes_peak()));
  }
  if (metrics.has_validation_loss()) {
    line += fmt::format("  validation loss {:.4f}", metrics.validation_loss());
  }
  if (left) {
    line += fmt::format("  ETA {}", format_duration(*left));
  }
  return line;
}

std::string last_line(const control::StepMetrics& last,
                      const std::optional<control::StepMetrics>& validated) {
  const std::string line = step_line(last, std::nullopt);
  if (last.has_validation_loss() || !validated) return line;
  return fmt::format("{}  validation loss {:.4f} (step {})", line, validated->validation_loss(),
                     validated->step());
}

std::optional<Time> PaceEstimate::update(Time now, int64_t step, int64_t total_steps) {
  constexpr size_t kMostMarks = 256;
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
  return std::chrono::duration_cast<Time>(passed / steps * static_cast<double>(total_steps - step));
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
