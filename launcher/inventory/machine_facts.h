// What this machine is like, read from the kernel, hwloc and the host probe. Judges nothing, throws
// nothing for what a machine does not say.
#pragma once

#include <vector>

#include "launcher/decide/devices/device_choice.h"
#include "launcher/decide/devices/gpu_state.h"
#include "launcher/inventory/inventory.h"
#include "proto/agent.pb.h"

namespace ds {

// The probe's facts about limits, memory and /dev/shm: as before every run
// (launcher/agents/host_probe.h).
agent::Facts probe_this_machine();

FactGroup system_facts();
FactGroup cpu_facts();
// With what becomes of each: `visible` is CUDA_VISIBLE_DEVICES.
FactGroup gpu_facts(const GpuReport& report, BuildDevices build, const char* visible);
FactGroup memory_facts(const agent::Facts& probed);
FactGroup limit_facts(const agent::Facts& probed);
std::vector<InterfaceFact> network_facts();

}  // namespace ds
