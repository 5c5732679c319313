#include "train/measure/step_note.h"

#include <rapidjson/document.h>

#include <cmath>
#include <sstream>

#include "core/status/error.h"

namespace ds {
namespace {

int64_t integer_in(const rapidjson::Document& note, const char* name) {
  const auto found = note.FindMember(name);
  if (found == note.MemberEnd() || !found->value.IsInt64()) {
    throw ValidationError(fmt::format("the note of a step has no integer \"{}\"", name));
  }
  return found->value.GetInt64();
}

double number_in(const rapidjson::Value& value, const MetricRow& row) {
  const bool is = is_whole(row.unit) ? value.IsInt64() : value.IsNumber();
  if (!is) throw ValidationError(fmt::format("the note of a step: \"{}\" is no number", row.name));
  return value.GetDouble();
}

std::string to_note(const StepMetrics& m) {
  std::string out = fmt::format(R"({{"step": {}, "total_steps": {})", m.step, m.total_steps);
  for (const Metric& metric : m.values.said()) {
    const MetricRow& row = *metric.row;
    if (!std::isfinite(metric.value)) continue;  // as norms of overflown gradients; not in JSON
    out += is_whole(row.unit) ? fmt::format(R"(, "{}": {})", row.name, whole_value(metric.value))
                              : fmt::format(R"(, "{}": {:.17g})", row.name, metric.value);
  }
  return out + "}";
}

// A metric that the note lacks was none when it was written; one that it has and the table lacks is
// none any more.
StepMetrics read_note(const std::string& text) {
  rapidjson::Document note;
  note.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag>(text.c_str());
  if (note.HasParseError() || !note.IsObject())
    throw ValidationError("the note of a step is no object");
  StepMetrics out{.step = integer_in(note, "step"), .total_steps = integer_in(note, "total_steps")};
  for (const MetricRow& row : metric_table()) {
    const auto found =
        note.FindMember(rapidjson::Value(rapidjson::StringRef(row.name.data(), row.name.size())));
    if (found != note.MemberEnd()) out.values.set(row.name, number_in(found->value, row));
  }
  return out;
}

}  // namespace

std::string to_notes(std::span<const StepMetrics> steps) {
  std::string out;
  for (const StepMetrics& metrics : steps) out += to_note(metrics) + "\n";
  return out;
}

std::vector<StepMetrics> read_step_notes(const std::string& notes) {
  std::vector<StepMetrics> out;
  std::istringstream lines(notes);
  for (std::string line; std::getline(lines, line);) out.push_back(read_note(line));
  return out;
}

}  // namespace ds
