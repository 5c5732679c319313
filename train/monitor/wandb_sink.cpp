#include "train/monitor/wandb_sink.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "core/files/crc32.h"
#include "train/measure/json_line.h"
#include "train/monitor/run_name.h"

namespace ds {
namespace {

// wandb/proto/wandb_internal.proto.
enum RecordField { kNum = 1, kHistory = 2, kRunSummary = 3, kRun = 17, kExit = 18, kHeader = 21 };
enum HeaderField { kVersionInfo = 1 };
enum VersionField { kProducer = 1, kMinConsumer = 2 };
enum RunField {
  kRunId = 1,
  kEntity = 2,
  kProject = 3,
  kConfig = 4,
  kGroup = 6,
  kDisplayName = 8,
  kHost = 13,
  kStartTime = 17
};
enum ConfigField { kUpdate = 1 };
enum ItemField { kKey = 1, kNestedKey = 2, kValueJson = 16 };
enum HistoryField { kItem = 1, kHistoryStep = 2 };
enum StepField { kStepNum = 1 };
enum RunSummaryField { kSummaryUpdate = 1 };
enum ExitField { kExitCode = 1, kRuntime = 2 };
enum TimestampField { kSeconds = 1, kNanos = 2 };

constexpr std::string_view kOldestReader = "0.70.0";  // as wandb's own files have it

constexpr size_t kBlock = 32768;
constexpr size_t kFrame = 7;  // checksum, length, kind
enum class Piece : char { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

Piece piece_of(bool first, bool last) {
  if (first) return last ? Piece::kFull : Piece::kFirst;
  return last ? Piece::kLast : Piece::kMiddle;
}

WireMessage item(std::string_view key, const std::string& json) {
  return WireMessage().text(kNestedKey, key).text(kValueJson, json);
}

WireMessage timestamp(double wall_s) {
  constexpr double kNanosPerSecond = 1e9;
  const double seconds = std::floor(wall_s);
  return WireMessage()
      .integer(kSeconds, static_cast<int64_t>(seconds))
      .integer(kNanos, static_cast<int64_t>((wall_s - seconds) * kNanosPerSecond));
}

}  // namespace

std::string WandbLog::head() {
  std::string out = ":W&B";
  append_little_endian<uint16_t>(out, 0xBEE1);
  out.push_back(0);  // version
  written_ = out.size();
  return out;
}

std::string WandbLog::framed(std::string_view record) {
  std::string out;
  bool first = true;
  do {
    const size_t left = kBlock - (written_ + out.size()) % kBlock;
    if (left < kFrame) {
      out.append(left, '\0');
      continue;
    }
    const std::string_view piece = record.substr(0, left - kFrame);
    record.remove_prefix(piece.size());
    const std::string kind(1, static_cast<char>(piece_of(first, record.empty())));
    append_little_endian(out, crc32(piece, crc32(kind)));
    append_little_endian(out, static_cast<uint16_t>(piece.size()));
    out.append(kind).append(piece);
    first = false;
  } while (first || !record.empty());
  written_ += out.size();
  return out;
}

std::string WandbSink::upload_command() const {
  return fmt::format("wandb sync {}/offline-run-*", place());
}

void WandbSink::put(WireMessage record) {
  record.integer(kNum, ++records_);
  waiting_.push_back(std::move(record));
}

WireMessage WandbSink::run_record(const std::string& run_id) const {
  const WandbConfig& config = options_.config;
  WireMessage run;
  run.text(kRunId, run_id).text(kProject, config.project).text(kHost, options_.host);
  run.text(kDisplayName, options_.run_dir.substr(options_.run_dir.rfind('/') + 1));
  if (config.team) run.text(kEntity, *config.team);
  if (config.group) run.text(kGroup, *config.group);
  const WireMessage settings =
      WireMessage().text(kKey, "train_json").text(kValueJson, options_.config_text);
  run.message(kConfig, WireMessage().message(kUpdate, settings));
  run.message(kStartTime, timestamp(start_s_));
  return run;
}

void WandbSink::begin(int64_t samples, double wall_s) {
  samples_ = samples;
  start_s_ = wall_s;
  const WireMessage version = WireMessage()
                                  .text(kProducer, "dslaunch " + options_.version)
                                  .text(kMinConsumer, kOldestReader);
  put(WireMessage().message(kHeader, WireMessage().message(kVersionInfo, version)));
}

// The name of the run is on the disk, so it is asked for where a disk may fail.
void WandbSink::open() {
  const std::string run_id =
      run_name(place() + "/run_id", 8, samples_ > 0 ? RunNaming::kKept : RunNaming::kNew);
  const auto start = static_cast<std::time_t>(start_s_);
  file_ =
      std::make_unique<GrowingFile>(fmt::format("{}/offline-run-{:%Y%m%d_%H%M%S}-{}/run-{}.wandb",
                                                place(), fmt::gmtime(start), run_id, run_id));
  file_->add(log_.head());
  WireMessage run;
  run.message(kRun, run_record(run_id)).integer(kNum, ++records_);
  waiting_.insert(waiting_.begin() + 1, std::move(run));  // behind the header
}

void WandbSink::add(const MonitorBatch& batch) {
  WireMessage history, summary;
  const auto both = [&](std::string_view key, const std::string& json) {
    const WireMessage one = item(key, json);
    history.message(kItem, one);
    summary.message(kSummaryUpdate, one);
  };
  for (const MonitorEvent& event : batch.events) both(event.name, json_number_or_nan(event.value));
  both("_timestamp", json_number_or_nan(batch.wall_s));
  both("_runtime", json_number_or_nan(batch.wall_s - start_s_));
  both("_step", std::to_string(batch.samples));
  history.message(kHistoryStep, WireMessage().integer(kStepNum, batch.samples));
  put(WireMessage().message(kHistory, history));
  put(WireMessage().message(kRunSummary, summary));
}

void WandbSink::end(double wall_s) {
  WireMessage exit;
  exit.integer(kExitCode, 0).integer(kRuntime, static_cast<int64_t>(wall_s - start_s_));
  put(WireMessage().message(kExit, exit));
}

void WandbSink::flush() {
  if (file_ == nullptr) open();
  for (const WireMessage& record : waiting_) file_->add(log_.framed(record.bytes()));
  waiting_.clear();
  file_->flush();
}

}  // namespace ds
