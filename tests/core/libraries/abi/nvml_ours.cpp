#include "core/libraries/nvml_abi.h"
#include "tests/core/libraries/abi/facts.h"

ds::abi::Facts ds::abi::nvml_of_ours() {
  constexpr auto kXidEvent = kNvmlXidEvent, kSoftwareThermal = kNvmlSoftwareThermal,
                 kHardwareThermal = kNvmlHardwareThermal, kPowerBrake = kNvmlPowerBrake;
  return {
#include "tests/core/libraries/abi/nvml_facts.inl"
  };
}
