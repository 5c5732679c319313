// What options that are numbers take: a number that is the whole text, that its type can hold, and
// that is neither infinite nor not a number.
#pragma once

#include <cstdint>

namespace CLI {
class Validator;
}

namespace ds {

// Whole numbers, in decimal digits.
CLI::Validator whole_check(int64_t least, int64_t most);
// Seeds: all that 64 bits hold.
CLI::Validator seed_check();
// Numbers with a fraction.
CLI::Validator number_check(double least, double most);
CLI::Validator positive_number_check();

}  // namespace ds
