// The CPU half of kernels/quantize/error_feedback. Operands have been checked.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::kernels::detail {

void feed_back_cpu(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error);
void rescale_errors_cpu(const StepScalars& scalars, Tensor& scales);

}  // namespace ds::kernels::detail
