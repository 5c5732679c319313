// What options that are numbers take: a number that is the whole text, that its type can hold, and
// that is neither infinite nor not a number.
#pragma once

#include <cstdint>

#include "cli/verb_app.h"

namespace ds {

// Whole numbers, in decimal digits.
ValueCheck whole_check(int64_t least, int64_t most);
// Seeds: all that 64 bits hold.
ValueCheck seed_check();
// Numbers with a fraction.
ValueCheck number_check(double least, double most);
ValueCheck positive_number_check();

}  // namespace ds
