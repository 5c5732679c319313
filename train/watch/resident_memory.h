// The most memory of this process that was resident at once (VmHWM in proc(5)), from its beginning
// until it is asked. A page that several ranks map counts in each of them.
#pragma once

#include <cstdint>

namespace ds {

int64_t resident_bytes_peak();  // 0 where the kernel does not tell

}  // namespace ds
