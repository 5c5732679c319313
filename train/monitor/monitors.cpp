#include "train/monitor/monitors.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "core/tasks/clock.h"
#include "core/tasks/host.h"
#include "core/values/index.h"
#include "train/eigenvalue/block_eigenvalues.h"
#include "train/measure/wall_time.h"
#include "train/monitor/comet_sink.h"
#include "train/monitor/csv_sink.h"
#include "train/monitor/tensorboard_sink.h"
#include "train/monitor/wandb_sink.h"

namespace ds {
namespace {

constexpr size_t kMostWaiting = size_t{32} << 20;  // bytes of events, for each monitor
constexpr size_t kBytesPerEvent = 64;

// Renamed is a metric that the step knows under another name.
struct Renamed {
  std::string_view metric;
  const char* event;
};
constexpr std::array kRenamed{Renamed{"loss", "Train/Samples/train_loss"},
                              Renamed{"lr", "Train/Samples/lr"},
                              Renamed{"grad_norm", "Train/Samples/grad_norm"},
                              Renamed{"validation_loss", "Train/Samples/eval_loss"}};

bool is_due(const BlockEigenvalues* eigenvalues, int64_t steps_done) {
  return eigenvalues != nullptr && eigenvalues->is_due(steps_done);
}

std::string folder_of(const std::optional<std::string>& output_path, const std::string& job_name,
                      const std::string& otherwise) {
  return (output_path && !output_path->empty() ? *output_path : otherwise) + "/" + job_name;
}

}  // namespace

std::vector<std::unique_ptr<MonitorSink>> monitor_sinks(const Config& config,
                                                        const MonitorOrigin& origin) {
  std::vector<std::unique_ptr<MonitorSink>> sinks;
  const std::string host = own_host_name();
  if (const TensorboardConfig& c = config.tensorboard; c.enabled) {
    sinks.push_back(std::make_unique<TensorboardSink>(TensorboardSink::Options{
        .folder = folder_of(c.output_path, c.job_name, origin.run_dir + "/tensorboard"),
        .host = host,
        .pid = ::getpid(),
        .wall_s = wall_seconds()}));
  }
  if (config.wandb.enabled) {
    sinks.push_back(
        std::make_unique<WandbSink>(WandbSink::Options{.config = config.wandb,
                                                       .run_dir = origin.run_dir,
                                                       .host = host,
                                                       .config_text = origin.config_text,
                                                       .version = origin.version}));
  }
  if (config.comet.enabled) {
    sinks.push_back(std::make_unique<CometSink>(
        CometSink::Options{config.comet, origin.run_dir, origin.config_text}));
  }
  if (const CsvMonitorConfig& c = config.csv_monitor; c.enabled) {
    sinks.push_back(std::make_unique<CsvSink>(
        folder_of(c.output_path, c.job_name, origin.run_dir + "/csv_monitor")));
  }
  return sinks;
}

std::vector<MonitorEvent> events_of(const StepReport& report, const MonitoredStep& step,
                                    const StepTimes* times) {
  std::vector<MonitorEvent> events;
  for (const Renamed& row : kRenamed) {
    if (const auto value = report.metrics.find(row.metric)) events.push_back({row.event, *value});
  }
  if (step.scales_loss) {
    events.push_back({"Train/Samples/loss_scale", report.metrics.at("loss_scale")});
  }
  events.push_back({"Train/Samples/elapsed_time_ms_total", report.seconds / kMillisecond});
  if (times != nullptr) {
    const auto elapsed = [&](const char* part, double seconds) {
      events.push_back(
          {fmt::format("Train/Samples/elapsed_time_ms_{}", part), seconds / kMillisecond});
    };
    elapsed("forward", times->forward);
    elapsed("backward", times->backward);
    elapsed("backward_inner", times->backward_inner());
    elapsed("backward_allreduce", times->reduction);
    elapsed("step", times->update);
  }
  const double samples_per_s = static_cast<double>(step.global_batch) / report.seconds;
  events.push_back({"Train/Samples/samples_per_s", samples_per_s});
  const double length = report.metrics.find("sequence_length").value_or(step.length);
  events.push_back({"Train/Samples/tokens_per_s", samples_per_s * length});
  return events;
}

std::vector<MonitorEvent> events_of(std::span<const double> eigenvalues) {
  std::vector<MonitorEvent> events;
  for (const double value : eigenvalues) {
    events.push_back({fmt::format("Train/Eigenvalues/ModelBlockParam_{}", events.size()), value});
  }
  return events;
}

Monitors::Monitors(std::vector<std::unique_ptr<MonitorSink>> sinks, RunReports& reports,
                   const StepTimer& timer, const Options& options)
    : options_(options), reports_(reports), timer_(timer), writer_(options.writer) {
  for (std::unique_ptr<MonitorSink>& sink : sinks) {
    const BackgroundWriter::Lane lane = writer_.add_lane(std::string(sink->name()), kMostWaiting);
    places_.push_back({std::move(sink), lane});
  }
}

Monitors::~Monitors() {
  if (!has_begun_ || has_ended_) return;
  constexpr std::chrono::milliseconds kPatience{200};
  try {
    post_waiting();
    writer_.finish(kPatience);
  } catch (...) {  // who gives up training has said why
  }
}

// What could not be written is tried again, and is not added again.
void Monitors::post(const std::function<void(MonitorSink&)>& add) {
  for (const Place& place : places_) {
    writer_.post(place.lane, 0, [sink = place.sink, add, is_added = false]() mutable {
      if (!is_added) add(*sink);
      is_added = true;
      sink->flush();
    });
  }
}

void Monitors::post_waiting() {
  if (waiting_.empty()) return;
  size_t bytes = 0;
  for (const MonitorBatch& batch : waiting_) bytes += batch.events.size() * kBytesPerEvent;
  const auto batches = std::make_shared<const Batches>(std::exchange(waiting_, {}));
  for (Place& place : places_) {
    const bool is_taken =
        writer_.post(place.lane, bytes, [sink = place.sink, batches, added = size_t{0}]() mutable {
          for (; added < batches->size(); ++added) sink->add((*batches)[added]);
          sink->flush();
        });
    if (!is_taken) place.lost += narrow<int64_t>(batches->size());
  }
}

void Monitors::after_step(const StepReport& report) {
  const int64_t batch = options_.step.global_batch;
  const double now = wall_seconds();
  if (!std::exchange(has_begun_, true)) {
    for (const Place& place : places_) {
      reports_.report_text(fmt::format("{} writes to {}", place.sink->name(), place.sink->place()));
    }
    post([from = (report.step - 1) * batch, now](MonitorSink& sink) { sink.begin(from, now); });
  }
  std::optional<StepTimes> times;
  if (timer_.newest()) times = times_of(*timer_.newest());
  waiting_.push_back(
      {report.step * batch, now, events_of(report, options_.step, times ? &*times : nullptr)});
  if (!is_due(options_.eigenvalues, report.step)) post_now_and_then();
}

// What there is of a step at its edge is a part of its events.
void Monitors::at_edge(int64_t steps_done) {
  if (!is_due(options_.eigenvalues, steps_done) || waiting_.empty()) return;
  for (MonitorEvent& event : events_of(options_.eigenvalues->newest())) {
    waiting_.back().events.push_back(std::move(event));
  }
  post_now_and_then();
}

void Monitors::post_now_and_then() {
  const auto at = std::chrono::steady_clock::now();
  if (posted_at_ && at - *posted_at_ < options_.gather_for) return;
  posted_at_ = at;
  post_waiting();
  report_changes();
}

void Monitors::report_changes() {
  for (const BackgroundWriter::Change& change : writer_.take_changes()) {
    if (!change.error.empty()) {
      reports_.report_text(
          fmt::format("{} cannot be written: {}; training goes on, and it is tried again",
                      change.name, change.error));
    } else {
      reports_.report_text(fmt::format("{} is written again", change.name));
    }
  }
  for (Place& place : places_) {
    if (place.lost == 0) continue;
    reports_.report_text(fmt::format("{}: {} steps are lost, because too much waited to be written",
                                     place.sink->name(), std::exchange(place.lost, 0)));
  }
}

void Monitors::before_exit(RunEnd /*end*/) {
  if (!has_begun_) return;
  has_ended_ = true;
  post_waiting();
  post([now = wall_seconds()](MonitorSink& sink) { sink.end(now); });
  for (const BackgroundWriter::Left& left : writer_.finish(options_.patience)) {
    reports_.report_text(fmt::format("{}: the last {} writes are lost: {}", left.name, left.jobs,
                                     left.error.empty() ? "the disk does not answer" : left.error));
  }
  for (const Place& place : places_) {
    const std::string command = place.sink->upload_command();
    if (command.empty()) continue;
    reports_.report_text(
        fmt::format("{}: `{}` uploads what was written", place.sink->name(), command));
  }
}

}  // namespace ds
