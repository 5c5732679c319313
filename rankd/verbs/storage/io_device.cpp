#include "rankd/verbs/storage/io_device.h"

#include "core/cuda/memory.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kUnplannedBytes = int64_t{1} << 20;  // what tensors' alignment takes

}  // namespace

IoDevice::IoDevice(int index, int64_t bytes)
    : memory_(make_device_memory(Device::cuda(index), to_size(bytes + kUnplannedBytes))),
      stream_(std::make_unique<Stream>(
          StreamOptions{.device = Device::cuda(index), .memory = memory_.get()})) {}

}  // namespace ds
