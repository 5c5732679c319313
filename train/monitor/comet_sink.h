// Experiments of Comet in the format of its offline mode: a folder with experiment.json and
// messages.json while the run goes on, and at the end an archive of both, which `comet upload`
// takes. A run that goes on in another process continues the folder.
#pragma once

#include <map>
#include <memory>

#include "config/sections/monitor.h"
#include "train/monitor/growing_file.h"
#include "train/monitor/sink.h"

namespace ds {

class JsonLine;

class CometSink final : public MonitorSink {
 public:
  struct Options {
    CometConfig config;
    std::string run_dir;
    std::string config_text;
  };
  explicit CometSink(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return "comet"; }
  std::string place() const override { return options_.run_dir + "/comet"; }
  std::string upload_command() const override;
  void begin(int64_t samples, double wall_s) override;
  void add(const MonitorBatch& batch) override;
  void end(double wall_s) override;
  void flush() override;

 private:
  void put(JsonLine& message, std::string_view type);
  bool is_due(const std::string& name, int64_t samples);
  void open();
  void write_archive();
  std::string experiment_text() const;

  const Options options_;
  int64_t samples_ = 0;  // at the start
  double start_s_ = 0;
  double end_s_ = 0;  // 0: it goes on
  std::string key_;   // of the experiment
  std::unique_ptr<GrowingFile> messages_;
  std::string waiting_;        // for that file, while it is not there
  bool is_described_ = false;  // experiment.json is there
  std::map<std::string, int64_t> logged_at_;
};

}  // namespace ds
