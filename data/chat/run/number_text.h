// Numbers as texts, as the conversions of Python's formats write them (pure).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ds::chat {

// The digits of a number without its sign, by 'b', 'o', 'x', 'X', or else decimal.
std::string digits_of(int64_t number, char kind);

// A number by 'e', 'f', 'g' or their capitals. `alternate`: a point stands there whatever follows
// it, and zeros at the end stay.
std::string float_text(double value, char kind, size_t precision, bool alternate);

// As Python's format() without a type: the shortest that is read as the same number, or, of so many
// digits, that of 'g', and a digit behind the point wherever there is no exponent.
std::string plain_float_text(double value, std::optional<size_t> precision, bool alternate);

}  // namespace ds::chat
