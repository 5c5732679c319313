// Which iteration makes a matrix orthogonal (newton_schulz.h), and by which polynomial.
#pragma once

#include <cstdint>

#include "kernels/optimizer/muon_update.h"

namespace ds::kernels {

enum class NewtonSchulzForm : uint8_t {
  kStandard,
  // Steps on the matrix x x' and the product of their polynomials, and x itself twice only: the
  // same polynomial, for fewer operations where one side is longer. Where it is not by half, this
  // is kStandard.
  kGram
};

inline constexpr int kNewtonSchulzSteps = 5;
inline constexpr Quintic kNewtonSchulzQuintic{.a = 3.4445F, .b = -4.7750F, .c = 2.0315F};
// Errors of x x' grow twelvefold with a step: it is made anew of x itself after this many.
inline constexpr int kNewtonSchulzStepsOfGram = 3;

}  // namespace ds::kernels
