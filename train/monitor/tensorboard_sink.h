// Event files of TensorBoard: TFRecords, framed by masked CRC-32C, of `Event` messages. A process
// writes a file of its own; one that goes on from samples that others have passed says so, and
// TensorBoard then drops theirs.
#pragma once

#include "train/monitor/growing_file.h"
#include "train/monitor/sink.h"

namespace ds {

class TensorboardSink final : public MonitorSink {
 public:
  // `host`, `pid`, `wall_s`: of the process, for a name that no other file has.
  struct Options {
    std::string folder;  // TensorBoard's --logdir, or a folder of it
    std::string host;
    int64_t pid = 0;
    double wall_s = 0;
  };
  explicit TensorboardSink(const Options& options);

  std::string_view name() const override { return "tensorboard"; }
  std::string place() const override { return file_.path(); }
  void begin(int64_t samples, double wall_s) override;
  void add(const MonitorBatch& batch) override;
  void end(double) override {}
  void flush() override { file_.flush(); }

 private:
  GrowingFile file_;
};

// The frame of a record: length, its checksum, the bytes, their checksum.
std::string tf_record(std::string_view bytes);

}  // namespace ds
