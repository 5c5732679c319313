// What options that are numbers take: a number that is the whole text, that its type can hold, and
// that is neither infinite nor not a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/verb_app.h"

namespace ds {

// Whole numbers, in decimal digits.
ValueCheck whole_check(int64_t least, int64_t most);
// Seeds: all that 64 bits hold.
ValueCheck seed_check();
// Numbers with a fraction.
ValueCheck number_check(double least, double most);
ValueCheck positive_number_check();

// "4096", "128K", "1GiB": bytes above 0, by powers of 1024; nothing where it is no such text.
std::optional<int64_t> parse_size(std::string_view text);
ValueCheck size_check();

}  // namespace ds
