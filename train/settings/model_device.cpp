#include "train/settings/model_device.h"

#include "core/cuda/memory.h"
#include "core/memory/adaptors.h"

namespace ds {

namespace {

// What is made at first use, and not in a rehearsal: words of flags, tables.
constexpr size_t kUnrehearsedBytes = size_t{1} << 20;

size_t rehearsed_bytes(Device device, int threads, const ModelDevice::Rehearsal& rehearsal) {
  MetaMemory nothing;
  PlanningMemory planned(nothing);
  rehearsal(
      {.device = Device::meta(), .stands_for = device, .memory = &planned, .threads = threads});
  return planned.block_bytes();
}

}  // namespace

ModelDevice::ModelDevice(Device device, int threads, const Rehearsal& rehearsal)
    : place_{.device = device, .threads = threads} {
  if (device.kind != Device::Kind::kCuda) return;
  block_ =
      make_device_memory(device, rehearsed_bytes(device, threads, rehearsal) + kUnrehearsedBytes);
  place_.memory = block_.get();
}

}  // namespace ds
