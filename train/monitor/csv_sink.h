// CSV files, one for each name: a head "step,lr" and a line "samples,value" for each event.
#pragma once

#include <map>

#include "train/monitor/growing_file.h"
#include "train/monitor/sink.h"

namespace ds {

class CsvSink final : public MonitorSink {
 public:
  explicit CsvSink(std::string folder) : folder_(std::move(folder)) {}

  std::string_view name() const override { return "csv_monitor"; }
  std::string place() const override { return folder_; }
  void begin(int64_t samples, double) override;
  void add(const MonitorBatch& batch) override;
  void end(double) override {}
  void flush() override;

 private:
  GrowingFile& file_of(const std::string& name, const std::string& head);

  const std::string folder_;
  int64_t from_ = 0;
  std::map<std::string, GrowingFile> files_;  // by their names in the folder
};

}  // namespace ds
