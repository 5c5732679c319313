#include <nvml.h>

#include "tests/core/libraries/abi/facts.h"

ds::abi::Facts ds::abi::nvml_of_theirs() {
  constexpr auto kXidEvent = nvmlEventTypeXidCriticalError,
                 kSoftwareThermal = nvmlClocksThrottleReasonSwThermalSlowdown,
                 kHardwareThermal = nvmlClocksThrottleReasonHwThermalSlowdown,
                 kPowerBrake = nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
  return {
#include "tests/core/libraries/abi/nvml_facts.inl"
  };
}
