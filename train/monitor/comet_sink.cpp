#include "train/monitor/comet_sink.h"

#include <rapidjson/document.h>

#include "train/measure/json_line.h"
#include "train/monitor/run_name.h"
#include "train/monitor/zip_archive.h"

namespace ds {
namespace {

int64_t milliseconds(double wall_s) {
  constexpr double kPerSecond = 1000;
  return static_cast<int64_t>(wall_s * kPerSecond);
}

std::string_view resume_strategy(const std::optional<CometMode>& mode) {
  switch (mode.value_or(CometMode::kGetOrCreate)) {
    case CometMode::kGet:
      return "get";
    case CometMode::kCreate:
      return "create";
    case CometMode::kGetOrCreate:
      break;
  }
  return "get_or_create";
}

// Everything but metrics of samples that are trained again.
bool is_kept(std::string_view line, int64_t samples) {
  rapidjson::Document message;
  message.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(line.data(),
                                                                                 line.size());
  if (message.HasParseError() || !message.IsObject()) return false;
  const auto payload = message.FindMember("payload");
  if (payload == message.MemberEnd() || !payload->value.IsObject()) return true;
  const auto metric = payload->value.FindMember("metric");
  if (metric == payload->value.MemberEnd() || !metric->value.IsObject()) return true;
  const auto step = metric->value.FindMember("step");
  return step == metric->value.MemberEnd() || !step->value.IsInt64() ||
         step->value.GetInt64() <= samples;
}

constexpr int kKeyLength = 32;

}  // namespace

std::string CometSink::upload_command() const {
  return fmt::format("comet upload {}/*.zip", place());
}

void CometSink::put(JsonLine& message, std::string_view type) {
  message.end().text("type", type).flush(messages_ ? messages_->waiting() : waiting_);
}

void CometSink::begin(int64_t samples, double wall_s) {
  samples_ = samples;
  start_s_ = wall_s;
  if (samples > 0) return;  // said when the run began
  const auto other = [&](std::string_view key, std::string_view value) {
    JsonLine message;
    message.begin("payload").text("key", key).text("value", value);
    put(message, "log_other");
  };
  if (options_.config.experiment_name) other("Name", *options_.config.experiment_name);
  other("Created from", "dslaunch");
  JsonLine parameter;
  parameter.begin("payload").integer("local_timestamp", milliseconds(wall_s)).begin("param");
  parameter.text("paramName", "train_json").text("paramValue", options_.config_text);
  parameter.text("source", "manual").null("step").end();
  put(parameter, "parameter_msg");
}

// The first value of a name, and then one whenever that many samples have passed.
bool CometSink::is_due(const std::string& name, int64_t samples) {
  const auto [at, is_first] = logged_at_.try_emplace(name, samples);
  if (!is_first && samples - at->second < options_.config.samples_log_interval) return false;
  at->second = samples;
  return true;
}

void CometSink::add(const MonitorBatch& batch) {
  JsonLine message;
  for (const MonitorEvent& event : batch.events) {
    if (!is_due(event.name, batch.samples)) continue;
    message.begin("payload").integer("local_timestamp", milliseconds(batch.wall_s));
    message.begin("metric").null("epoch").text("metricName", event.name);
    message.real("metricValue", event.value).integer("step", batch.samples).end();
    put(message, "metric_msg");
  }
}

void CometSink::end(double wall_s) { end_s_ = wall_s; }

void CometSink::open() {
  const RunNaming naming = samples_ > 0 ? RunNaming::kKept : RunNaming::kNew;
  key_ = options_.config.experiment_key ? *options_.config.experiment_key
                                        : run_name(place() + "/experiment_key", kKeyLength, naming);
  auto file = std::make_unique<GrowingFile>(place() + "/" + key_ + "/messages.json");
  if (samples_ > 0) {
    file->keep_lines([from = samples_](std::string_view line) { return is_kept(line, from); });
  }
  file->add(std::exchange(waiting_, {}));
  messages_ = std::move(file);
}

std::string CometSink::experiment_text() const {
  const CometConfig& config = options_.config;
  JsonLine out;
  out.text("offline_id", key_).text_or_null("project_name", config.project);
  out.text_or_null("workspace", config.workspace);
  out.integer("start_time", milliseconds(start_s_));
  out.integer("stop_time", milliseconds(std::max(end_s_, start_s_)));
  out.texts("tags", {}).text("resume_strategy", resume_strategy(config.mode));
  out.boolean("customer_error_reported", false).null("customer_error_message");
  out.boolean("user_provided_experiment_key", config.experiment_key.has_value());
  out.boolean("comet_start_sourced", false);
  return out.take();
}

void CometSink::write_archive() {
  RealFileSystem files;
  constexpr int64_t kMost = int64_t{1} << 32;
  ZipArchive archive;
  archive.add("experiment.json", experiment_text());
  archive.add("messages.json", files.read_text(messages_->path(), kMost));
  files.write_text_atomically(place() + "/" + key_ + ".zip", archive.finish());
}

void CometSink::flush() {
  if (messages_ == nullptr) open();
  messages_->flush();
  if (!is_described_) {
    RealFileSystem().write_text_atomically(parent_directory(messages_->path()) + "/experiment.json",
                                           experiment_text());
    is_described_ = true;
  }
  if (end_s_ > 0) write_archive();
}

}  // namespace ds
