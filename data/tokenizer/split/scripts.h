// The scripts of Unicode 14 (UAX 24), by the names that PCRE2 has for them.
#pragma once

#include <string_view>

namespace ds {

// Whether it is the name of one.
bool is_script(std::string_view name);

}  // namespace ds
