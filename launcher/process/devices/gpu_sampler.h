// Looks at the GPUs of this machine every second, in a thread of its own: a driver whose GPU
// fails may answer late. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/libraries/nvml.h"
#include "launcher/decide/devices/gpu_state.h"

namespace ds {

class GpuSampler {
 public:
  struct Options {
    std::chrono::milliseconds period{1000};
    std::string file = kNvmlFile;
  };
  explicit GpuSampler(Options options);
  GpuSampler() : GpuSampler(Options{}) {}
  GpuSampler(const GpuSampler&) = delete;  // owns a thread
  GpuSampler& operator=(const GpuSampler&) = delete;
  ~GpuSampler();

  // The newest; null: there is none yet. Where GPUs cannot be looked at it says why, and is the
  // last.
  std::shared_ptr<const GpuReport> newest() const;

 private:
  void look();
  bool told_to_end_within(std::chrono::milliseconds limit);
  void publish(GpuReport report);

  const Options options_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ending_ = false;
  std::shared_ptr<const GpuReport> newest_;
  std::thread thread_;
};

}  // namespace ds
