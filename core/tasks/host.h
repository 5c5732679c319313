// What this machine says of itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ds {

// As the kernel has it, which need not be a name that others can resolve; "unknown" where it has
// none.
std::string own_host_name();

// Bytes that can be had without swapping, by the kernel's estimate (MemAvailable of /proc/meminfo).
std::optional<int64_t> available_memory();

}  // namespace ds
