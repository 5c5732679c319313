// Runs of Weights & Biases in the format of its offline mode, which `wandb sync` uploads: a log of
// records in the manner of LevelDB, each a `Record` message. A run that goes on in another process
// is a further file of the same run, as wandb itself does it; the server keeps what it has.
#pragma once

#include <memory>

#include "config/sections/monitor.h"
#include "train/monitor/growing_file.h"
#include "train/monitor/sink.h"
#include "train/monitor/wire_message.h"

namespace ds {

// The log's frames: blocks of 32 KiB, records in one or several pieces with a checksum each.
class WandbLog {
 public:
  std::string head();  // once, before everything else
  std::string framed(std::string_view record);

 private:
  size_t written_ = 0;  // bytes of the file so far
};

class WandbSink final : public MonitorSink {
 public:
  struct Options {
    WandbConfig config;
    std::string run_dir;
    std::string host;
    std::string config_text;  // of train.json: what the run is, in one value
    std::string version;      // of the program that writes
  };
  explicit WandbSink(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return "wandb"; }
  std::string place() const override { return options_.run_dir + "/wandb"; }
  std::string upload_command() const override;
  void begin(int64_t samples, double wall_s) override;
  void add(const MonitorBatch& batch) override;
  void end(double wall_s) override;
  void flush() override;

 private:
  void put(WireMessage record);
  void open();
  WireMessage run_record(const std::string& run_id) const;

  const Options options_;
  int64_t samples_ = 0;  // at the start
  double start_s_ = 0;
  std::unique_ptr<GrowingFile> file_;  // null until the name of the run is known
  std::vector<WireMessage> waiting_;   // for the file
  WandbLog log_;
  int64_t records_ = 0;
};

}  // namespace ds
