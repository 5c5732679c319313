// Memory of a CUDA device, and host memory whose pages stay where they are, so that the device
// copies to and from it while the host goes on.
#pragma once

#include <memory>

#include "core/device.h"
#include "core/memory/resource.h"

namespace ds {

// Each allocation is one of the driver's, which is slow: what a run needs is one block of it
// (ReplayArena). Unsupported without CUDA in the build. Thread-safe.
std::unique_ptr<MemoryResource> make_device_memory(Device device);
std::unique_ptr<MemoryResource> make_pinned_memory();

}  // namespace ds
