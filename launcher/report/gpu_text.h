// GPUs in words (pure).
#pragma once

#include <string>

#include "launcher/decide/devices/gpu_state.h"

namespace ds {

std::string gpu_name(const GpuState& gpu);  // "GPU 3 (NVIDIA H200)"

// "52.1 of 139.8 GiB, 97 %, 61 degrees C": what of that is known, and no more.
std::string gpu_figures_text(const GpuFigures& figures);

// Describes a GPU in the last moments of a rank: the figures, clock, power and the newest Xid.
std::string gpu_last_words(const GpuState& gpu);

// "Xid 79 (it has fallen off the bus)"; NVIDIA's "Xid Errors" lists them.
std::string xid_text(int64_t xid);

}  // namespace ds
