// The devices that test programs and benchmarks are told by name: `cpu | emulated | cuda:N`.
#pragma once

#include <string>

#include "core/values/device.h"

namespace ds::testing {

struct NamedDevice {
  Device device = Device::cpu();
  bool is_emulated = false;
};

// ConfigError, in words for a command line, for other names and for devices that this build cannot
// have. Whether the machine has the device is not asked.
NamedDevice device_named(const std::string& name);

}  // namespace ds::testing
