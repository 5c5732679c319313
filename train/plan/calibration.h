// What the operations of a job take on this machine, measured: a few micro-steps of a model with
// the job's layers, but one of them, and no wider than a fraction of a second allows.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/tasks/clock.h"
#include "offload/async_io/io_options.h"
#include "train/engine.h"
#include "train/plan/costs.h"

namespace ds {

// Listens to a stream that computes when it is told to: the time until the next operation begins is
// that of the one before.
class Stopwatch final : public Trace {
 public:
  // The clock must outlive the stopwatch.
  Stopwatch(const DeviceCeilings& ceilings, const Clock& clock)
      : ceilings_(ceilings), clock_(clock) {}
  void on_op(std::string_view name, const OpCost& cost) override;
  void begin();  // forgets what was measured
  // With the ceilings' slowdown replaced by what was measured since begin().
  DeviceCeilings end();

 private:
  struct Sum {
    double measured = 0;  // seconds
    double allowed = 0;
  };
  void close();

  const DeviceCeilings ceilings_;
  const Clock& clock_;
  std::map<std::string, Sum, std::less<>> sums_;
  Sum* running_ = nullptr;
  int64_t since_ns_ = 0;
};

// The job that is measured in place of `options`: the same operations, in less time and memory.
EngineOptions reduced_for_calibration(const EngineOptions& options);

struct RanksHere {
  int ranks = 1;
  int threads = 1;  // of each
};
// As many of `ranks` as have cores of their own on this machine: the others are elsewhere.
RanksHere ranks_here(int ranks, int threads);

// DiskToMeasure says where weights or state are swapped to, and how.
struct DiskToMeasure {
  std::string folder;
  IoOptions io{};
};
// Replaces what the links of a CPU that plays both sides carry by what they do here: copies of
// memory, and with a disk, reads and writes of a file in the folder. Throws what SpeedRun throws.
void measure_links(const std::optional<DiskToMeasure>& disk, DeviceCeilings& ceilings);

// Runs that job on so many ranks at once, which takes a fraction of a second: cores that work side
// by side are slower than one alone. Throws what one of them throws.
DeviceCeilings calibrate(const EngineOptions& options, const RanksHere& here);

}  // namespace ds
