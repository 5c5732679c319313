// A sink is where the figures of a run go besides its own files: TensorBoard, Weights & Biases,
// Comet, CSV files. It turns batches of events into the bytes of its format, and writes what it can
// when it is asked to. Sinks know nothing of training and of threads: monitors.h carries them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct MonitorEvent {
  std::string name;  // "Train/Samples/lr"
  double value = 0;
};

// What is known at one moment, by the samples of all ranks that were trained on.
struct MonitorBatch {
  int64_t samples = 0;
  double wall_s = 0;  // since 1970
  std::vector<MonitorEvent> events;
};

class MonitorSink {
 public:
  MonitorSink() = default;
  MonitorSink(const MonitorSink&) = delete;  // one of them owns the files
  MonitorSink& operator=(const MonitorSink&) = delete;
  virtual ~MonitorSink() = default;

  virtual std::string_view name() const = 0;  // "tensorboard", as its section is called
  virtual std::string place() const = 0;      // the file or folder, for people
  // Sends what lies there to a service, once the run is over. Empty where there is none.
  virtual std::string upload_command() const { return ""; }

  // Once, before everything else. `samples`: those that the state was trained on that training goes
  // on from; what an earlier process wrote of later ones is trained again.
  virtual void begin(int64_t samples, double wall_s) = 0;
  virtual void add(const MonitorBatch& batch) = 0;  // into memory
  virtual void end(double wall_s) = 0;              // into memory; nothing is added after it
  // Writes what was added. Throws what can not be written, and goes on there when it is called
  // again.
  virtual void flush() = 0;
};

}  // namespace ds
