// Memory of a CUDA device, and host memory whose pages stay where they are, so that the device
// copies to and from it while the host goes on.
//
// Each resource takes one block of the size that the plan says when it is made, so that a machine
// with too little of it is told before training, and hands out parts of it, which is no call of the
// driver's. What it cannot hand out is OutOfMemory. The block is given back with the resource.
//
// What is given back may be handed out again at once. Work that a stream was given before is still
// done before whatever that stream is given later, so for who computes on one stream its order
// suffices. Who has used a part on another stream lets the stream for which it was allocated wait
// for an event of that work before giving the part back. The parts that a recorded graph works on
// (step_graph.h) are kept for as long as it is replayed.
#pragma once

#include <memory>

#include "core/memory/resource.h"
#include "core/values/device.h"

namespace ds {

// `bytes` count up to the next multiple of kSlabAlignment, as whatever is handed out does.
// Unsupported without CUDA in the build; OutOfMemory where there is no such block, with what is
// free. Thread-safe.
std::unique_ptr<MemoryResource> make_device_memory(Device device, size_t bytes);
std::unique_ptr<MemoryResource> make_pinned_memory(size_t bytes);

}  // namespace ds
