// What a model computes on in a program of its own (`generate`, `eval`): the CPU, or a CUDA device,
// whose memory is taken in one block of the size that a rehearsal on meta says.
#pragma once

#include <functional>
#include <memory>

#include "core/memory/resource.h"
#include "core/values/device.h"

namespace ds {

struct ModelPlace {
  Device device = Device::cpu();
  Device stands_for = Device::cpu();  // of meta: what is rehearsed for
  MemoryResource* memory = nullptr;   // not owned; null: the heap, which is the CPU's
  int threads = 1;                    // of the host
};

class ModelDevice {
 public:
  // Is given a place on meta, and does there, once, the largest of everything that will be done.
  // On a CPU nothing is rehearsed.
  using Rehearsal = std::function<void(const ModelPlace&)>;
  // OutOfMemory where the device has less than is wanted; Unsupported without CUDA in the build.
  ModelDevice(Device device, int threads, const Rehearsal& rehearsal);

  const ModelPlace& place() const { return place_; }

 private:
  std::unique_ptr<MemoryResource> block_;  // null on a CPU
  ModelPlace place_;
};

}  // namespace ds
