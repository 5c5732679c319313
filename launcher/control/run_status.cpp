#include "launcher/control/run_status.h"

#include <fmt/ranges.h>
#include <rapidjson/document.h>

#include <array>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

std::string collective_json(const LastCollective& last) {
  if (last.number == 0) return "null";
  return JsonObject()
      .integer("number", static_cast<int64_t>(last.number))
      .text("group", last.group)
      .integer("sequence", static_cast<int64_t>(last.sequence))
      .text("op", last.op)
      .raw("inside", last.inside ? "true" : "false")
      .str();
}

// A figure of a GPU and its key.
struct Figure {
  const char* key;
  std::optional<int64_t> GpuFigures::*value;
};
constexpr std::array kFigures{Figure{"memory_total", &GpuFigures::memory_total},
                              Figure{"memory_used", &GpuFigures::memory_used},
                              Figure{"utilization", &GpuFigures::utilization},
                              Figure{"temperature", &GpuFigures::temperature},
                              Figure{"sm_clock", &GpuFigures::sm_clock},
                              Figure{"power", &GpuFigures::power},
                              Figure{"last_xid", &GpuFigures::last_xid}};

std::string gpu_json(const std::optional<GpuState>& gpu) {
  if (!gpu) return "null";
  JsonObject out;
  out.integer("index", gpu->index).text("uuid", gpu->uuid).text("name", gpu->name);
  out.text("problem", gpu->problem);
  for (const Figure& figure : kFigures) {
    const std::optional<int64_t>& value = gpu->figures.*figure.value;
    out.raw(figure.key, value ? std::to_string(*value) : "null");
  }
  return out.str();
}

// 0 stands for what is not known.
std::string json_or_null(int64_t value) { return value == 0 ? "null" : std::to_string(value); }

std::string one_rank_json(const RankStatus& rank) {
  const auto of_step = [&](int64_t value) {
    return rank.progress.knows_step() ? std::to_string(value) : "null";
  };
  return JsonObject()
      .integer("rank", rank.rank)
      .text("host", rank.host)
      .raw("pid", json_or_null(rank.pid))
      .text("state", rank.state)
      .raw("step", of_step(rank.progress.step))
      .raw("micro_step", of_step(rank.progress.micro_step))
      .raw("micro_step_total", json_or_null(rank.progress.total))
      .text("phase", rank.progress.phase)
      .number("silent_s", rank.silent_s)
      .raw("collective", collective_json(rank.progress.collective))
      .raw("gpu", gpu_json(rank.gpu))
      .str();
}

std::string list_json(const std::vector<int>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string trace_json(const TraceStatus& trace) {
  if (trace.number == 0) return "null";
  return JsonObject()
      .integer("number", trace.number)
      .text("state", trace.state)
      .integer("steps", trace.steps)
      .raw("ranks", list_json(trace.ranks))
      .raw("ready", list_json(trace.ready))
      .text("reason", trace.reason)
      .str();
}

// Fields by name; what is absent or null has the default, what has another type is refused.
class Fields {
 public:
  explicit Fields(const rapidjson::Value& object) : object_(object) {
    if (!object.IsObject()) throw DataError("status: expected a JSON object");
  }

  const rapidjson::Value* find(std::string_view key) const {
    const auto found =
        object_.FindMember(rapidjson::Value(rapidjson::StringRef(key.data(), key.size())));
    return found == object_.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
  }
  std::string text(std::string_view key) const {
    const rapidjson::Value* value = checked(key, &rapidjson::Value::IsString);
    return value == nullptr ? "" : std::string(value->GetString(), value->GetStringLength());
  }
  int64_t integer(std::string_view key) const {
    const rapidjson::Value* value = checked(key, &rapidjson::Value::IsInt64);
    return value == nullptr ? 0 : value->GetInt64();
  }
  std::optional<double> number(std::string_view key) const {
    const rapidjson::Value* value = checked(key, &rapidjson::Value::IsNumber);
    return value == nullptr ? std::nullopt : std::optional(value->GetDouble());
  }
  std::vector<int> integers(std::string_view key) const {
    const rapidjson::Value* value = checked(key, &rapidjson::Value::IsArray);
    std::vector<int> out;
    if (value == nullptr) return out;
    for (const rapidjson::Value& one : value->GetArray()) {
      if (!one.IsInt()) throw DataError(fmt::format("status: '{}' is no list of numbers", key));
      out.push_back(one.GetInt());
    }
    return out;
  }
  bool flag(std::string_view key) const {
    const rapidjson::Value* value = checked(key, &rapidjson::Value::IsBool);
    return value != nullptr && value->GetBool();
  }

 private:
  const rapidjson::Value* checked(std::string_view key,
                                  bool (rapidjson::Value::*is)() const) const {
    const rapidjson::Value* const value = find(key);
    if (value != nullptr && !(value->*is)()) {
      throw DataError(fmt::format("status: '{}' is not of the expected type", key));
    }
    return value;
  }

  const rapidjson::Value& object_;
};

rapidjson::Document parse_document(std::string_view json) {
  rapidjson::Document document;
  // Iterative: depth costs no stack. Full precision: what was written comes back.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag;
  document.Parse<kFlags>(json.data(), json.size());
  if (document.HasParseError()) {
    throw DataError(fmt::format("status: not JSON at byte {}", document.GetErrorOffset()));
  }
  return document;
}

GpuState read_gpu(const rapidjson::Value& value) {
  const Fields in(value);
  GpuState gpu{.index = static_cast<int>(in.integer("index")),
               .uuid = in.text("uuid"),
               .name = in.text("name"),
               .problem = in.text("problem")};
  for (const Figure& figure : kFigures) {
    if (in.find(figure.key) != nullptr) gpu.figures.*figure.value = in.integer(figure.key);
  }
  return gpu;
}

TraceStatus read_trace(const rapidjson::Value& value) {
  const Fields in(value);
  return {.number = in.integer("number"),
          .state = in.text("state"),
          .steps = in.integer("steps"),
          .ranks = in.integers("ranks"),
          .ready = in.integers("ready"),
          .reason = in.text("reason")};
}

RankStatus read_rank(const rapidjson::Value& value) {
  const Fields in(value);
  RankStatus rank;
  rank.rank = static_cast<int>(in.integer("rank"));
  rank.host = in.text("host");
  rank.pid = in.integer("pid");
  rank.state = in.text("state");
  rank.progress.step = in.integer("step");
  rank.progress.micro_step = in.integer("micro_step");
  rank.progress.total = in.integer("micro_step_total");
  rank.progress.phase = in.text("phase");
  rank.silent_s = in.number("silent_s");
  if (const rapidjson::Value* collective = in.find("collective")) {
    const Fields last(*collective);
    rank.progress.collective = {static_cast<uint64_t>(last.integer("number")), last.text("group"),
                                static_cast<uint64_t>(last.integer("sequence")), last.text("op"),
                                last.flag("inside")};
  }
  if (const rapidjson::Value* gpu = in.find("gpu")) rank.gpu = read_gpu(*gpu);
  return rank;
}

StepMetrics read_step(const rapidjson::Value& value) {
  const Fields in(value);
  StepMetrics step{.step = in.integer("step"), .total_steps = in.integer("total_steps")};
  for (const MetricRow& row : metric_table()) {
    if (in.find(row.name) == nullptr) continue;
    step.values.set(row.name, is_whole(row.unit) ? static_cast<double>(in.integer(row.name))
                                                 : *in.number(row.name));
  }
  return step;
}

// Earlier versions called it an epoch.
int64_t generation_in(const Fields& in) {
  return in.integer(in.find("generation") != nullptr ? "generation" : "epoch");
}

std::optional<control::CommittedTag> read_commit(const Fields& in) {
  const rapidjson::Value* const value = in.find("last_committed");
  if (value == nullptr) return std::nullopt;
  const Fields fields(*value);
  control::CommittedTag tag;
  tag.set_tag(fields.text("tag"));
  tag.set_step(fields.integer("step"));
  return tag;
}

}  // namespace

std::string step_json(const StepMetrics& step) {
  JsonObject out;
  out.integer("step", step.step).raw("total_steps", json_or_null(step.total_steps));
  for (const MetricRow& row : metric_table()) out.metric(row, step.values.find(row));
  return out.str();
}

std::string status_json(const RunStatus& status) {
  JsonObject out;
  out.text("run_dir", status.run_dir)
      .text("config", status.config)
      .text("phase", status.phase)
      .integer("launcher_pid", status.launcher_pid)
      .raw("generation", json_or_null(status.generation))
      .raw("restarts", status.restarts ? std::to_string(*status.restarts) : "null")
      .number("elapsed_s", status.elapsed_s)
      .raw("stop_requested", status.stop_requested ? "true" : "false")
      .raw("exit_code", status.exit_code ? std::to_string(*status.exit_code) : "null")
      .text("reason", status.reason)
      .raw("last_step", status.last_step ? step_json(*status.last_step) : "null")
      .number("left_s", status.left_s)
      .raw("last_committed", status.last_commit ? JsonObject()
                                                      .text("tag", status.last_commit->tag())
                                                      .integer("step", status.last_commit->step())
                                                      .str()
                                                : "null")
      .text("waits_for", status.waits_for);
  std::string ranks;
  for (const RankStatus& rank : status.ranks) {
    ranks += (ranks.empty() ? "" : ", ") + one_rank_json(rank);
  }
  out.raw("trace", trace_json(status.trace));
  return out.raw("ranks", fmt::format("[{}]", ranks)).str();
}

RunStatus parse_status(std::string_view json) { return read_status(parse_document(json)); }

RunStatus read_status(const rapidjson::Value& object) {
  const Fields in(object);
  RunStatus status;
  status.run_dir = in.text("run_dir");
  status.config = in.text("config");
  status.phase = in.text("phase");
  status.launcher_pid = in.integer("launcher_pid");
  status.generation = generation_in(in);
  if (in.find("restarts") != nullptr) status.restarts = static_cast<int>(in.integer("restarts"));
  status.elapsed_s = in.number("elapsed_s");
  status.stop_requested = in.flag("stop_requested");
  if (in.find("exit_code") != nullptr) status.exit_code = static_cast<int>(in.integer("exit_code"));
  status.reason = in.text("reason");
  if (const rapidjson::Value* step = in.find("last_step")) status.last_step = read_step(*step);
  status.left_s = in.number("left_s");
  status.last_commit = read_commit(in);
  status.waits_for = in.text("waits_for");
  if (const rapidjson::Value* trace = in.find("trace")) status.trace = read_trace(*trace);
  const rapidjson::Value* const ranks = in.find("ranks");
  if (ranks != nullptr && ranks->IsArray()) {
    for (const rapidjson::Value& rank : ranks->GetArray()) status.ranks.push_back(read_rank(rank));
  }
  return status;
}

std::string phase_of(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::kDone)      ? "done"
         : exit_code == static_cast<int>(ExitCode::kRequeue) ? "stopped"
                                                             : "failed";
}

void add_report(std::string_view report_json, RunStatus& status) {
  const rapidjson::Document document = parse_document(report_json);
  const Fields in(document);
  if (in.find("exit_code") == nullptr) throw DataError("report.json: no exit_code");
  const int code = static_cast<int>(in.integer("exit_code"));
  status.exit_code = code;
  status.phase = phase_of(code);
  status.reason = in.text("reason");
  status.generation = generation_in(in);
  if (in.find("restarts") != nullptr) status.restarts = static_cast<int>(in.integer("restarts"));
  status.elapsed_s = in.number("seconds");
  status.last_commit = read_commit(in);
  if (const rapidjson::Value* const step = in.find("last_step")) {
    status.last_step = read_step(*step);
  } else if (const int64_t steps = in.integer("steps"); steps > 0) {  // of an earlier version
    status.last_step.emplace().step = steps;
    if (const auto loss = in.number("loss")) status.last_step->values.set("loss", *loss);
  }
}

void add_metrics_line(std::string_view line, RunStatus& status) {
  std::optional<StepMetrics> said;
  try {
    said = read_step(parse_document(line));
  } catch (const DataError&) {
    return;
  }
  const std::optional<StepMetrics>& known = status.last_step;
  // The line may be of an earlier launch, with a step that the last launch went back behind.
  const bool is_wanted = !known || (known->step == said->step && known->total_steps == 0);
  if (said->step > 0 && is_wanted) status.last_step = std::move(said);
}

}  // namespace ds
