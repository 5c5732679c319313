// A build without CUDA has no queues of its devices.
#include "core/cuda/queue.h"
#include "core/error.h"

namespace ds {

std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  throw Unsupported(
      fmt::format("stream: this build has no {} (build option DS_WITH_CUDA)", device.to_string()));
}

}  // namespace ds
