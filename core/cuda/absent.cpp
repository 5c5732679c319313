// A build without CUDA has no queues and no memory of its devices.
#include "core/cuda/library_calls.h"
#include "core/cuda/memory.h"
#include "core/cuda/moment.h"
#include "core/cuda/queue.h"
#include "core/status/error.h"

namespace ds {
namespace {

[[noreturn]] void refuse(std::string_view what) {
  throw Unsupported(fmt::format("{}: this build has no CUDA (build option DS_WITH_CUDA)", what));
}

}  // namespace

std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  refuse(fmt::format("stream of {}", device.to_string()));
}
std::shared_ptr<QueueMoment> mark_moment(DeviceQueue& /*queue*/) { refuse("moment of a queue"); }
void use_device(Device device) { refuse(device.to_string()); }
std::string unique_name(Device device) { refuse(device.to_string()); }
std::string model_name(Device device) { refuse(device.to_string()); }
std::unique_ptr<MemoryResource> make_device_memory(Device device, size_t /*bytes*/) {
  refuse(fmt::format("memory of {}", device.to_string()));
}
std::unique_ptr<MemoryResource> make_pinned_memory(size_t /*bytes*/) { refuse("pinned memory"); }

}  // namespace ds
