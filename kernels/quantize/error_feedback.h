// Error feedback of quantized sums (LoCo, Xie et al., arXiv 2407.04480): of what a code of a number
// loses, a moving average is kept and added to the number that is made a code next.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::kernels {

// error = beta * error + (1 - beta) * (x - y), of numbers x whose codes say y; 0 where that is not
// finite. All fp32 and of one size.
void feed_back(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error);

// Errors that are kept as codes with these scales, levels a unit, fp32: after a finished step they
// are of gradients with the loss scale of the next one, or, if it was skipped, 0.
void rescale_errors(Stream& stream, const StepScalars& scalars, Tensor& scales);

}  // namespace ds::kernels
