#include "core/device/stream.h"

#include <cstring>

#include "core/status/error.h"

namespace ds {

std::string Device::to_string() const {
  switch (kind) {
    case Kind::kCpu:
      return "cpu";
    case Kind::kCuda:
      return fmt::format("cuda:{}", index);
    case Kind::kMeta:
      return "meta";
  }
  return "unknown";
}

Stream::Stream(const StreamOptions& options)
    : device_(options.device),
      stands_for_(device_.is_meta() ? options.stands_for : device_),
      memory_(options.memory),
      pool_(options.pool),
      trace_(options.trace),
      gate_(options.gate) {
  if (device_.kind == Device::Kind::kCuda) queue_ = make_device_queue(device_);
  DS_CHECK(memory_ != nullptr, "stream: no memory resource given");
  DS_CHECK(device_ != Device::cpu() || pool_ != nullptr,
           "stream: a CPU stream needs a thread pool");
}

void Stream::copy(const void* from, void* to, size_t bytes) {
  report("copy", {.flops = 0, .bytes = 2.0 * static_cast<double>(bytes)});
  if (device_.is_meta() || bytes == 0) return;
  if (queue_ != nullptr) return queue_->copy(from, to, bytes);
  const DeviceAccess access(gate_);
  std::memcpy(to, from, bytes);
}

void Stream::fill_bytes(void* to, int value, size_t bytes) {
  report("fill_bytes", {.flops = 0, .bytes = static_cast<double>(bytes)});
  if (device_.is_meta() || bytes == 0) return;
  if (queue_ != nullptr) return queue_->fill_bytes(to, value, bytes);
  const DeviceAccess access(gate_);
  std::memset(to, value, bytes);
}

}  // namespace ds
