// Vectorised inner loops on raw memory that one kernel lends to another. They choose the
// instruction set, check nothing and run on the calling thread. Internal to kernels/.
#pragma once

#include <cstdint>

#include "core/values/dtype.h"
#include "kernels/front/activation_kind.h"

namespace ds::kernels::detail {

void cast_span(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t numel);
void accumulate_span(const void* x, DType x_dtype, void* y, DType y_dtype,
                     int64_t numel);  // y += x
void activation_span(Activation kind, const void* x, void* y, DType dtype,
                     int64_t numel);  // y = f(x)

}  // namespace ds::kernels::detail
