// The GPUs of this machine, and whether this build can use them.
#pragma once

#include <vector>

#include "launcher/decide/devices/device_choice.h"

namespace ds {

std::vector<PresentGpu> present_gpus();

BuildDevices build_devices();

// Those that our own CUDA_VISIBLE_DEVICES leaves; null where it is not set.
VisibleGpus own_gpus(const char* variable);

}  // namespace ds
