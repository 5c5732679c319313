// The metrics of a step: one table of what there is, its unit and how each reader shows it, and a
// list of values by name. They travel as that list from where they are computed to metrics.jsonl,
// `dslaunch status` and the screen, so a new metric is a row of the table and the one place that
// sets it. Refuses to know how a value is computed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ds {

enum class MetricUnit { kNone, kSamples, kBytes, kTokensPerSecond };
// Samples and bytes are written without a fraction.
constexpr bool is_whole(MetricUnit unit) {
  return unit == MetricUnit::kSamples || unit == MetricUnit::kBytes;
}

// Whether metrics.jsonl has it where it is absent: as null, or not at all. kNever: in no file.
enum class MetricInFiles { kAlways, kWherePresent, kNever };

struct MetricRow {
  std::string_view name;
  MetricUnit unit = MetricUnit::kNone;
  // What stands for it where nobody said it; nothing: then it is absent.
  std::optional<double> if_absent = std::nullopt;
  MetricInFiles in_files = MetricInFiles::kAlways;
  // The Prometheus endpoint has it by this name, with this help; empty: it is not there.
  std::string_view gauge{};
  std::string_view help{};
  // On the line of a step, a format of the number or of its words ("412 MiB"), at its place from 1;
  // empty: it is not there.
  std::string_view shown{};
  int place = 0;
  std::optional<double> unsaid = std::nullopt;  // the value that the line leaves out
};

// In the order of the files.
std::span<const MetricRow> metric_table();
const MetricRow* find_metric_row(std::string_view name);  // null: there is none

// The value of a metric that is_whole(), as it is written: the nearest integer, 0 for NaN.
int64_t whole_value(double value);

struct Metric {
  const MetricRow* row = nullptr;  // of the table
  double value = 0;
};

class Metrics {
 public:
  Metrics() = default;
  Metrics(std::initializer_list<std::pair<std::string_view, double>> values);

  // InternalError for a name that is not in the table; so for all that follows. Replaces.
  void set(std::string_view name, double value);
  bool has(std::string_view name) const { return said(row_of(name)).has_value(); }
  // Or what stands for it; nothing: it is absent.
  std::optional<double> find(std::string_view name) const { return find(row_of(name)); }
  std::optional<double> find(const MetricRow& row) const;
  // NaN where it is absent.
  double at(std::string_view name) const;
  std::span<const Metric> said() const { return said_; }  // in the order in which they were set

 private:
  static const MetricRow& row_of(std::string_view name);
  std::optional<double> said(const MetricRow& row) const;

  std::vector<Metric> said_;
};

// One line of metrics.jsonl. Rank 0 reports it after each step.
struct StepMetrics {
  int64_t step = 0;         // 1 for the first
  int64_t total_steps = 0;  // of the whole run
  Metrics values{};
};

}  // namespace ds
