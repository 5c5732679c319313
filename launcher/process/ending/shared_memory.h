// What an epoch may leave in /dev/shm, where its processes were killed while they met.
#pragma once

#include <string>

namespace ds {

// Everything whose name begins so. What cannot be removed stays; nothing is thrown.
void remove_shared_memory(const std::string& name) noexcept;

}  // namespace ds
