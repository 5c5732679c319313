#include "launcher/report/run_records.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <mutex>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/wake_fd.h"
#include "launcher/process/files/epoch_claim.h"
#include "launcher/report/past_progress.h"
#include "launcher/report/plot.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLogBytes = size_t{16} << 20;
constexpr size_t kMostMetricBytes = size_t{256} << 20;
constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr size_t kSmallJob = 1024;
constexpr Time kStall = std::chrono::seconds(10);
constexpr Time kShortPatience = std::chrono::seconds(2);  // where the run ends by an error

// Passes lines on to where they are written.
class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(std::function<void(std::string)> take) : take_(std::move(take)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    take_(std::string(text.data(), text.size()));
  }
  void flush_() override {}

 private:
  const std::function<void(std::string)> take_;
};

}  // namespace

struct RunRecords::Shared {
  Shared(const RunDirectory& where, RunLease held)
      : directory(where), lease(std::move(held)), metrics(where) {}

  const RunDirectory directory;
  // The thread's.
  RunLease lease;
  MetricsFile metrics;
  std::map<std::string, AppendFile> appended;
  RealFileSystem files;
  const Fd wake = make_wake_fd();
  std::mutex mutex;  // guards everything below
  std::optional<Claim> claim;
  std::optional<std::string> taken_over;
  std::optional<int64_t> room;

  void report_taken_over(const std::string& what) {
    const std::scoped_lock lock(mutex);
    taken_over = what;
    eventfd_write(wake.get(), 1);
  }

  AppendFile& file_to_append(const std::string& name) {
    const auto found = appended.find(name);
    return found != appended.end() ? found->second
                                   : appended.try_emplace(name, directory.file(name)).first->second;
  }
};

RunRecords::RunRecords(const RunDirectory& directory, RunLease lease, const Options& options)
    : directory_(directory),
      options_(options),
      shared_(std::make_shared<Shared>(directory, std::move(lease))),
      logs_(writer_.add_lane("logs/", kMostLogBytes)),
      metrics_(writer_.add_lane("metrics.jsonl", kMostMetricBytes)),
      lease_(writer_.add_lane(lease_path({}).string(), kMostFileBytes)),
      claims_(writer_.add_lane("the claim of a generation", kMostFileBytes)),
      textfile_(elsewhere_.add_lane("--metrics-textfile", kMostFileBytes)) {
  auto sink = std::make_shared<LineSink>(
      [this](std::string line) { append("logs/dslaunch.log", std::move(line)); });
  log_ = std::make_shared<spdlog::logger>("dslaunch", std::move(sink));
}

RunRecords::~RunRecords() {
  if (!finished_) writer_.finish(kShortPatience);
}

void RunRecords::post(BackgroundWriter::Lane lane, size_t bytes, BackgroundWriter::Job job) {
  if (!lost_) writer_.post(lane, bytes, std::move(job));
}

BackgroundWriter::Lane RunRecords::lane_of(const std::string& name) {
  const auto [lane, added] = files_.try_emplace(name);
  if (added) lane->second = writer_.add_lane(name, kMostFileBytes);
  return lane->second;
}

void RunRecords::append(const std::string& name, std::string line) {
  const size_t bytes = line.size();
  post(logs_, bytes, [shared = shared_, name, line = std::move(line), added = false]() mutable {
    AppendFile& file = shared->file_to_append(name);
    if (!std::exchange(added, true)) file.add(line);
    file.flush();
  });
}

void RunRecords::rank_line(int rank, std::string_view line) {
  append(fmt::format("logs/rank-{}.log", rank), fmt::format("{}\n", line));
}

void RunRecords::step(const StepMetrics& metrics) {
  if (!std::exchange(has_metrics_, true) && options_.becomes_latest) {
    post(lane_of("runs/latest"), kSmallJob,
         [shared = shared_] { shared->directory.become_latest(); });
  }
  const bool due = metrics.step == 1 || metrics.step == metrics.total_steps ||
                   metrics.step % options_.log_every == 0 || metrics.values.has("validation_loss");
  if (!due) return;
  const size_t bytes = sizeof(metrics) + metrics.values.said().size_bytes();
  post(metrics_, bytes, [shared = shared_, metrics, added = false]() mutable {
    if (!std::exchange(added, true)) shared->metrics.add(metrics);
    shared->metrics.flush();
  });
}

void RunRecords::committed(const control::CommittedTag& tag, int64_t epoch) {
  replace("committed.json", committed_text(tag.tag(), tag.step(), epoch));
}

void RunRecords::replace(const std::string& name, std::string text) {
  const size_t bytes = text.size();
  post(lane_of(name), bytes, [shared = shared_, name, text = std::move(text)] {
    write_whole_file(shared->directory.file(name), text);
  });
}

void RunRecords::textfile(std::string text) {
  if (elsewhere_.waiting(textfile_) == 0) post_textfile(std::move(text));
}

void RunRecords::post_textfile(std::string text) {
  if (!options_.metrics_textfile) return;
  const size_t bytes = text.size();
  elsewhere_.post(textfile_, bytes, [path = *options_.metrics_textfile, text = std::move(text)] {
    write_whole_file(path, text);
  });
}

void RunRecords::claim_epoch(int64_t wanted, const std::string& holder, OnError on_error) {
  post(claims_, kSmallJob, [shared = shared_, wanted, holder, on_error] {
    Claim claim;
    try {
      shared->lease.renew();  // who has lost the run may not go on with it
      claim.epoch =
          ds::claim_epoch(shared->files, shared->directory.path().string(), wanted, holder);
      // The disk may have kept us waiting for so long that it is another's by now.
      shared->lease.renew();
    } catch (const LeaseRefused& taken) {
      shared->report_taken_over(taken.what());
      return;
    } catch (const Error& failure) {
      if (on_error == OnError::kRetry) throw;
      claim.error = failure.what();
    }
    const std::scoped_lock lock(shared->mutex);
    shared->claim = std::move(claim);
    eventfd_write(shared->wake.get(), 1);
  });
}

std::optional<RunRecords::Claim> RunRecords::claimed() {
  eventfd_t count = 0;
  eventfd_read(shared_->wake.get(), &count);
  const std::scoped_lock lock(shared_->mutex);
  return std::exchange(shared_->claim, std::nullopt);
}

int RunRecords::event_fd() const { return shared_->wake.get(); }

void RunRecords::look_for_room() {
  if (writer_.waiting(claims_) > 0) return;  // the disk has not answered yet
  post(claims_, kSmallJob, [shared = shared_] {
    const int64_t bytes = shared->files.free_bytes(shared->directory.path().string());
    const std::scoped_lock lock(shared->mutex);
    shared->room = bytes;
  });
}

std::optional<int64_t> RunRecords::room_seen() {
  const std::scoped_lock lock(shared_->mutex);
  return std::exchange(shared_->room, std::nullopt);
}

void RunRecords::keep_lease(Time now) {
  if (now - renewed_at_ < kLeaseRenewal || writer_.waiting(lease_) > 0) return;
  renewed_at_ = now;
  post(lease_, kSmallJob, [shared = shared_] {
    try {
      shared->lease.renew();
    } catch (const LeaseRefused& taken) {
      shared->report_taken_over(taken.what());
    }
  });
}

std::optional<std::string> RunRecords::taken_over() {
  const std::scoped_lock lock(shared_->mutex);
  lost_ = lost_ || shared_->taken_over.has_value();
  return std::exchange(shared_->taken_over, std::nullopt);
}

void RunRecords::note_stall(Time now, std::vector<std::string>& out) {
  const std::optional<BackgroundWriter::Running> running = writer_.running();
  const bool stalled = running && now - running->since >= kStall;
  if (stalled && !stall_said_) {
    out.push_back(fmt::format(
        "warning: the disk of {} has not answered for {} s (writing {}); training goes on",
        directory_.shown(directory_.path()),
        std::chrono::duration_cast<std::chrono::seconds>(now - running->since).count(),
        running->name));
  } else if (!stalled && stall_said_) {
    out.push_back(fmt::format("the disk of {} answers again", directory_.shown(directory_.path())));
  }
  stall_said_ = stalled;
}

std::vector<std::string> RunRecords::take_notices(Time now) {
  std::vector<std::string> out;
  for (BackgroundWriter* const writer : {&writer_, &elsewhere_}) {
    for (const BackgroundWriter::Change& change : writer->take_changes()) {
      if (change.dropped > 0) {
        out.push_back(fmt::format("warning: {}: {} dropped, because the disk does not take them",
                                  change.name, format_count(change.dropped, "line")));
      }
      out.push_back(
          change.error.empty()
              ? fmt::format("{} is written again; what had waited is there", change.name)
              : fmt::format("warning: {}: {}; training goes on, and it is tried again every second",
                            change.name, change.error));
    }
  }
  note_stall(now, out);
  return out;
}

RunRecords::Finished RunRecords::finish(End end) {
  finished_ = true;
  replace("report.json", std::move(end.report));
  if (!end.textfile.empty()) post_textfile(std::move(end.textfile));
  if (has_metrics_) {
    post(lane_of("loss.svg"), kSmallJob, [shared = shared_, title = options_.plot_title] {
      if (shared->metrics.points().empty()) return;
      write_whole_file(shared->directory.file("loss.svg"),
                       loss_plot(title, shared->metrics.points()));
    });
  }
  post(lease_, kSmallJob, [shared = shared_, code = end.exit_code] { shared->lease.end(code); });
  Finished out;
  if (!lost_) out.written = {"report.json"};
  if (!lost_ && has_metrics_) out.written.insert(out.written.end(), {"metrics.jsonl", "loss.svg"});
  for (BackgroundWriter* const writer : {&writer_, &elsewhere_}) {
    for (const BackgroundWriter::Left& left : writer->finish(options_.patience)) {
      std::erase(out.written, left.name);
      out.problems.push_back(
          fmt::format("warning: {} could not be written to the end: {}", left.name,
                      left.error.empty() ? "the disk does not answer" : left.error));
    }
  }
  return out;
}

}  // namespace ds
