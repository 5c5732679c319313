// The scripts of Unicode 14 (UAX 24), by the names that PCRE2 has for them.
#pragma once

#include <span>
#include <string_view>

namespace ds {

// All but Common, which is what every script uses, and but Han, Hiragana and Katakana.
std::span<const std::string_view> scripts();
// Whether it is the name of one, those four among them.
bool is_script(std::string_view name);

}  // namespace ds
