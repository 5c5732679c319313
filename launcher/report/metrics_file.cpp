#include "launcher/report/metrics_file.h"

#include <charconv>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/decide/text/line_buffer.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJsonStart = "{\"step\": ";

std::optional<int64_t> leading_integer(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> number_after(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  double value = 0;
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const char* const end = line.data() + line.size();
  const auto parsed = std::from_chars(line.data() + at + key.size(), end, value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// Calls `keep` with each whole line; the text of those it wants.
template <class Keep>
std::string filtered(const fs::path& path, const Keep& keep) {
  std::string out;
  read_lines(path, kMostMetricsBytes, [&](std::string_view line) {
    if (!keep(line)) return;
    out += line;
    out += '\n';
  });
  return out;
}

}  // namespace

std::optional<int64_t> step_of_json_line(std::string_view line) {
  if (!line.starts_with(kJsonStart) || !line.ends_with('}')) {
    return std::nullopt;
  }
  return leading_integer(line.substr(kJsonStart.size()));
}

std::optional<std::string> last_metrics_line(const fs::path& run_directory) {
  constexpr size_t kTail = 64 << 10;
  const fs::path path = run_directory / "metrics.jsonl";
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  if (none) return std::nullopt;
  const std::string tail = read_part(path, size > kTail ? size - kTail : 0, kTail);
  std::optional<std::string> last;
  LineBuffer lines;
  const auto look = [&last](std::string_view line) {
    if (step_of_json_line(line)) last = line;
  };
  lines.feed(tail, look);
  lines.finish(look);
  return last;
}

std::string metrics_json(const StepMetrics& metrics) {
  JsonObject line;
  line.integer("step", metrics.step);
  for (const MetricRow& row : metric_table()) {
    if (row.in_files == MetricInFiles::kNever) continue;
    const std::optional<double> value = metrics.values.find(row);
    if (value || row.in_files == MetricInFiles::kAlways) line.metric(row, value);
  }
  return line.str() + "\n";
}

std::string metrics_csv_header() {
  std::string line = "step";
  for (const MetricRow& row : metric_table()) {
    if (row.in_files != MetricInFiles::kNever) line += fmt::format(",{}", row.name);
  }
  return line + "\n";
}

std::string metrics_csv(const StepMetrics& metrics) {
  std::string line = std::to_string(metrics.step);
  for (const MetricRow& row : metric_table()) {
    if (row.in_files == MetricInFiles::kNever) continue;
    const std::optional<double> value = metrics.values.find(row);
    line += !value               ? ","
            : is_whole(row.unit) ? fmt::format(",{}", whole_value(*value))
                                 : fmt::format(",{}", *value);
  }
  return line + "\n";
}

void MetricsFile::flush_files() {
  if (jsonl_) jsonl_->flush();
  if (csv_) csv_->flush();
}

void MetricsFile::flush() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    const StepMetrics& metrics = waiting_.front();
    const bool redone = !points_.empty() && metrics.step <= points_.back().step;
    if (!jsonl_ || !csv_ || redone) {
      flush_files();
      open_at(metrics.step);
    }
    jsonl_->add(metrics_json(metrics));
    csv_->add(metrics_csv(metrics));
    points_.push_back({metrics.step, metrics.values.at("loss"),
                       metrics.values.find("validation_loss"), metrics.values.find("generation")});
  }
  flush_files();
}

void MetricsFile::open_at(int64_t first_step) {
  const fs::path jsonl = directory_.file("metrics.jsonl");
  const fs::path csv = directory_.file("metrics.csv");
  jsonl_.reset();
  csv_.reset();
  points_.clear();
  const std::string kept = filtered(jsonl, [&](std::string_view line) {
    const std::optional<int64_t> step = step_of_json_line(line);
    const bool before = step && *step < first_step;
    if (const auto loss = before ? number_after(line, "\"loss\": ") : std::nullopt) {
      points_.push_back({*step, *loss, number_after(line, "\"validation_loss\": "),
                         number_after(line, "\"generation\": ")});
    }
    return before;
  });
  const std::string kept_csv = filtered(csv, [&](std::string_view line) {
    const std::optional<int64_t> step = leading_integer(line);
    return step && *step < first_step;
  });
  write_whole_file(jsonl, kept);
  write_whole_file(csv, metrics_csv_header() + kept_csv);
  jsonl_.emplace(jsonl);
  csv_.emplace(csv);
}

}  // namespace ds
