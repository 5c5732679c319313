#include "launcher/report/past_progress.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <optional>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/files/input_file.h"
#include "launcher/report/metrics_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommitted = "committed.json";

std::optional<std::string> text_of(const fs::path& path, size_t most) {
  try {
    return read_input_file_if_there(path, most);
  } catch (const Error&) {
    return "";
  }
}

// Reads the progress of a launch that did not keep committed.json.
PastProgress from_older_files(const fs::path& run_directory, PastProgress out) {
  constexpr size_t kLargestReport = 64 << 20;
  rapidjson::Document report;
  report.Parse<rapidjson::kParseIterativeFlag>(
      text_of(run_directory / "report.json", kLargestReport).value_or("").c_str());
  if (!report.HasParseError() && report.IsObject() && report.HasMember("last_committed")) {
    const rapidjson::Value& commit = report["last_committed"];
    const bool told = commit.IsObject() && commit.HasMember("step") && commit["step"].IsInt64();
    if (told) {
      out.committed_step = commit["step"].GetInt64();
      out.committed_by = "report.json";
    }
  }
  if (out.metrics_step > 0)
    out.trace = fmt::format("metrics.jsonl holds steps up to {}", out.metrics_step);
  return out;
}

}  // namespace

std::string committed_text(const std::string& tag, int64_t step, int64_t epoch) {
  return JsonObject().text("tag", tag).integer("step", step).integer("generation", epoch).str() +
         "\n";
}

std::string nothing_committed_text(int64_t begun_anew) {
  return JsonObject()
             .text("tag", "")
             .integer("step", 0)
             .integer("epoch", 0)
             .integer("begun_anew", begun_anew)
             .str() +
         "\n";
}

PastProgress past_progress(const fs::path& run_directory) {
  constexpr size_t kLongest = 4096;
  const std::optional<std::string> text = text_of(run_directory / kCommitted, kLongest);
  PastProgress out;
  if (const auto line = last_metrics_line(run_directory)) {
    out.metrics_step = step_of_json_line(*line).value_or(0);
    out.metrics_line = *line;
  }
  if (!text) return from_older_files(run_directory, std::move(out));
  rapidjson::Document in;
  in.Parse<rapidjson::kParseIterativeFlag>(text->c_str());
  const bool holds = !in.HasParseError() && in.IsObject() && in.HasMember("step") &&
                     in["step"].IsInt64() && in["step"].GetInt64() >= 0 && in.HasMember("tag") &&
                     in["tag"].IsString();
  if (!holds) {
    out.trace = fmt::format("{} is there, but cannot be read", kCommitted);
  } else if (in["step"].GetInt64() > 0) {
    out.committed_step = in["step"].GetInt64();
    out.committed_by = fmt::format("{} names {}", kCommitted, in["tag"].GetString());
  } else {
    out.unsaved_step = out.metrics_step;
    const bool told = in.HasMember("begun_anew") && in["begun_anew"].IsInt64();
    out.begun_anew = told ? std::max<int64_t>(0, in["begun_anew"].GetInt64()) : 0;
  }
  return out;
}

}  // namespace ds
