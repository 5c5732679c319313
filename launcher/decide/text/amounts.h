// Times and counts in words (pure), as every sentence of the launcher says them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/decide/text/clock_time.h"

namespace ds {

std::string format_duration(Time duration);                      // "3m12s"
std::string format_count(int64_t count, std::string_view what);  // "1 rank", "2 ranks"

}  // namespace ds
