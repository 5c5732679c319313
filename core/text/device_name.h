// Devices by the names that people give them.
#pragma once

#include <string_view>

#include "core/values/device.h"

namespace ds {

// "cpu", "cuda", which is the first one, or "cuda:1". ConfigError for what is none of these.
Device device_named(std::string_view name);

}  // namespace ds
