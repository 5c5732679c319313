#include "train/step/workspace_tiers.h"

#include "core/memory/adaptors.h"
#include "core/status/error.h"

namespace ds {
namespace {

// A CPU plays both parts.
class HeapTiers final : public WorkspaceTiers {
 public:
  explicit HeapTiers(Device device) : device_(device) {}

  MemoryResource& device() override { return heap_; }
  MemoryResource& host() override { return heap_; }
  MemoryResource& pinned() override { return heap_; }
  Device stands_for() const override { return device_; }

 private:
  const Device device_;
  HostMemory heap_;
};

class BlockTiers final : public WorkspaceTiers {
 public:
  BlockTiers(Device device, const DeviceBlocks& blocks) : device_(device), blocks_(blocks) {}

  MemoryResource& device() override { return *blocks_.device; }
  MemoryResource& host() override { return heap_; }
  MemoryResource& pinned() override { return *blocks_.pinned; }
  Device stands_for() const override { return device_; }

 private:
  const Device device_;
  const DeviceBlocks& blocks_;
  HostMemory heap_;
};

class MetaTiers final : public WorkspaceTiers {
 public:
  explicit MetaTiers(Device planned) : planned_(planned) {}

  MemoryResource& device() override { return device_; }
  MemoryResource& host() override { return host_; }
  MemoryResource& pinned() override { return pinned_; }
  Device stands_for() const override { return planned_; }
  Device host_device() const override { return Device::meta(); }
  int threads(int /*asked*/) const override { return 1; }
  Trace* trace_beside(Trace* asked) const override { return asked; }
  bool has_disk_clock() const override { return true; }
  BlockSizes planned_blocks() const override {
    return {device_.block_bytes(), pinned_.block_bytes()};
  }

 private:
  const Device planned_;
  HostMemory heap_;
  MetaMemory device_, host_;
  PlanningMemory pinned_{heap_};
};

}  // namespace

std::unique_ptr<WorkspaceTiers> make_tiers(Device device, Device planned,
                                           const DeviceBlocks* blocks) {
  DS_CHECK((blocks != nullptr) == (device.kind == Device::Kind::kCuda),
           "workspace: on {}, {} blocks of a device", device.to_string(),
           blocks != nullptr ? "with" : "without");
  if (device.is_meta()) return std::make_unique<MetaTiers>(planned);
  if (blocks != nullptr) return std::make_unique<BlockTiers>(device, *blocks);
  return std::make_unique<HeapTiers>(device);
}

}  // namespace ds
