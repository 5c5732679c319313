#include "launcher/process/devices/gpu_sampler.h"

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "launcher/process/devices/gpu_reader.h"

namespace ds {

GpuSampler::GpuSampler(Options options)
    : options_(std::move(options)), thread_(start_thread("what GPUs say", [this] { look(); })) {}

GpuSampler::~GpuSampler() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const GpuReport> GpuSampler::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void GpuSampler::look() {
  try {
    GpuReader reader(options_.file);
    do {
      publish(reader.sample());
    } while (!told_to_end_within(options_.period));
  } catch (const Unsupported& error) {
    publish({.problem = error.what()});
  }
}

bool GpuSampler::told_to_end_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return ending_; });
}

void GpuSampler::publish(GpuReport report) {
  auto fresh = std::make_shared<const GpuReport>(std::move(report));
  const std::lock_guard lock(mutex_);
  newest_ = std::move(fresh);
}

}  // namespace ds
