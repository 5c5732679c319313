// Vectorised inner loops of compression on raw memory: what onebit_math.h and quantize_math.h do to
// spans, to the bit. They choose the instruction set, check nothing and run on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/quantize/levels.h"

namespace ds::kernels::detail {

// error += values, and returns the sum of the squares that this makes, as sum_of_squares_into() has
// it of a block (kernels/reduce/reduce.h), to the bit.
double add_and_square_span(std::span<const float> values, std::span<float> error);

// `packed` has sign_bytes(error.size()) bytes.
void pack_signs_span(float scale, std::span<float> error, std::span<uint8_t> packed);
void expand_signs_span(std::span<const uint8_t> packed, float scale, std::span<float> out);
void add_signs_span(std::span<const uint8_t> packed, float scale, std::span<float> out);

// Either zero may be the smallest or the largest number.
Range range_span(std::span<const float> x);
void int_codes_span(std::span<const float> x, int bits, IntScale scale, std::span<int8_t> q);
void int_values_span(std::span<const int8_t> q, IntScale scale, std::span<float> out);

// Codes of 4 bits, two in a byte, the first in the high half; of an odd number the last low half is
// written as 0, and not read.
void pack_nibbles_span(std::span<const int8_t> q, std::span<int8_t> packed);
void unpack_nibbles_span(std::span<const int8_t> packed, std::span<int8_t> q);

}  // namespace ds::kernels::detail
