// What a launcher writes while a run goes on: logs, metrics, the figures for Prometheus, its lease
// and the claims of epochs. Nothing here waits for a disk: a full one makes files late, one that
// hangs is said, and training goes on either way (core/tasks/background_writer.h).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tasks/background_writer.h"
#include "launcher/decide/text/clock_time.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/process/run_lease.h"
#include "launcher/report/metrics_file.h"
#include "proto/control.pb.h"

namespace spdlog {
class logger;
}

namespace ds {

class RunRecords {
 public:
  struct Options {
    std::optional<std::filesystem::path> metrics_textfile;
    std::string plot_title;
    bool becomes_latest = true;                // runs/latest, once it trains
    int64_t log_every = 1;                     // steps between lines of metrics
    Time patience = std::chrono::seconds(10);  // at the end, with a disk that takes nothing
  };
  RunRecords(const RunDirectory& directory, RunLease lease, const Options& options);
  RunRecords(const RunRecords&) = delete;  // jobs of a thread refer to its parts
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords();

  const RunDirectory& directory() const { return directory_; }
  spdlog::logger& log() { return *log_; }  // logs/dslaunch.log
  void rank_line(int rank, std::string_view line);
  // The first, the last, every n-th and those with an evaluation have a line in the metrics.
  void step(const StepMetrics& metrics);
  bool has_metrics() const { return has_metrics_; }
  bool steps_are_written() const { return writer_.waiting(metrics_) == 0; }
  void committed(const control::CommittedTag& tag, int64_t epoch);
  // The file is replaced whole, by the last text that was given for it.
  void replace(const std::string& name, std::string text);
  void textfile(std::string text);  // passed over while the disk still writes the one before

  // An epoch number of the directory's own (launcher/process/files/epoch_claim.h), claimed in the
  // background. kRetry: what fails is tried again; else the first error is told.
  enum class OnError { kTell, kRetry };
  struct Claim {
    int64_t epoch = 0;
    std::string error;  // why there is none
  };
  void claim_epoch(int64_t wanted, const std::string& holder, OnError on_error);
  std::optional<Claim> claimed();  // once it is; then no more
  int event_fd() const;            // readable when claimed() or taken_over() has something to say

  // The bytes that are free on the disk of the directory: asked for in the background, as a disk
  // may not answer, and told once each time.
  void look_for_room();
  std::optional<int64_t> room_seen();

  // Renews the lease when it is time.
  void keep_lease(Time now);
  // Says so, once, when another launcher has taken the run over. From then on nothing is written:
  // the files are the other's.
  std::optional<std::string> taken_over();

  // What the user should know: writes that fail or hang, and that they go well again.
  std::vector<std::string> take_notices(Time now);

  // Writes the report, the plot and everything that is late, and ends the lease.
  struct Finished {
    std::vector<std::string> written;   // of report.json, metrics.jsonl and loss.svg, what is whole
    std::vector<std::string> problems;  // what could not be written, in words
  };
  struct End {
    std::string report;      // of report.json
    std::string textfile{};  // the last figures for Prometheus, where they are wanted
    int exit_code = 0;
  };
  Finished finish(End end);

 private:
  struct Shared;  // with the thread
  void append(const std::string& name, std::string line);
  void post(BackgroundWriter::Lane lane, size_t bytes, BackgroundWriter::Job job);
  void post_textfile(std::string text);
  BackgroundWriter::Lane lane_of(const std::string& name);
  void note_stall(Time now, std::vector<std::string>& out);

  const RunDirectory directory_;
  const Options options_;
  const std::shared_ptr<Shared> shared_;
  BackgroundWriter writer_;
  BackgroundWriter elsewhere_;  // the textfile lies on a disk of its own
  BackgroundWriter::Lane logs_, metrics_, lease_, claims_, textfile_;
  std::map<std::string, BackgroundWriter::Lane> files_;
  std::shared_ptr<spdlog::logger> log_;
  bool has_metrics_ = false;
  bool lost_ = false;  // another launcher has the directory
  bool finished_ = false;
  Time renewed_at_{};
  bool stall_said_ = false;
};

}  // namespace ds
