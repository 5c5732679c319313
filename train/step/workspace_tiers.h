// WorkspaceTiers: what the tiers of a rank are made of, and what beside them tells a run from its
// dry run: of the heap, of blocks that a device's memory was taken in, or of nothing but addresses.
#pragma once

#include <memory>

#include "core/cuda/memory.h"
#include "core/device/stream.h"

namespace ds {

struct BlockSizes {
  size_t device = 0;  // bytes
  size_t pinned = 0;  // bytes of host memory
};

// The memory that a rank takes of a CUDA device, and that of the host which the device copies to
// and from: one block each.
struct DeviceBlocks {
  // OutOfMemory where the device or the host has no such block.
  DeviceBlocks(Device on, const BlockSizes& sizes)
      : device(make_device_memory(on, sizes.device)), pinned(make_pinned_memory(sizes.pinned)) {}
  std::unique_ptr<MemoryResource> device;
  std::unique_ptr<MemoryResource> pinned;
};

class WorkspaceTiers {
 public:
  virtual ~WorkspaceTiers() = default;

  virtual MemoryResource& device() = 0;
  virtual MemoryResource& host() = 0;
  virtual MemoryResource& pinned() = 0;
  // The device whose run this is, or is planned for.
  virtual Device stands_for() const = 0;
  virtual Device host_device() const { return Device::cpu(); }  // whose streams the host's are
  virtual int threads(int asked) const { return asked; }
  // What a stream with a thread of its own tells: traces are of one thread.
  virtual Trace* trace_beside(Trace* /*asked*/) const { return nullptr; }
  // Whether the swap file has a clock of its own, which somebody has to tell.
  virtual bool has_disk_clock() const { return false; }
  // The blocks that all there was so far fits into; nothing but in a dry run.
  virtual BlockSizes planned_blocks() const { return {}; }
};

// planned: the device that meta stands for. blocks: of a CUDA device, which outlive it; null for
// others.
std::unique_ptr<WorkspaceTiers> make_tiers(Device device, Device planned,
                                           const DeviceBlocks* blocks);

}  // namespace ds
