// IoDevice is the GPU of `dslaunch io` and `dslaunch nvme-tune`, if their tensors lie on one.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/stream.h"

namespace ds {

// A GPU with room for `bytes`, and a stream of it. Unsupported, with what is missing, without one.
class IoDevice {
 public:
  IoDevice(int index, int64_t bytes);
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<MemoryResource> memory_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace ds
