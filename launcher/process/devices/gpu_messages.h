// The state of GPUs as it travels between agents and the launcher (pure).
#pragma once

#include "launcher/decide/devices/gpu_state.h"
#include "proto/agent.pb.h"

namespace ds {

agent::GpuReport to_message(const GpuReport& report);
GpuReport from_message(const agent::GpuReport& message);

}  // namespace ds
