// Checks that every front function makes of its arguments: once, before the work is reported or
// done. All throw InternalError naming the operation, the operand, what it has and what was
// expected.
#pragma once

#include <string_view>

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"

namespace ds::kernels::detail {

// Defined, on the stream's device, and `numel` elements; shapes are the caller's view of the bytes.
void require_numel(std::string_view op, std::string_view operand, const Stream& stream,
                   const Tensor& tensor, int64_t numel);
void require_dtype(std::string_view op, std::string_view operand, const Tensor& tensor,
                   DType dtype);
// Both of it: so many elements of this type.
void require_like(std::string_view op, std::string_view operand, const Stream& stream,
                  const Tensor& tensor, int64_t numel, DType dtype);
void require_float(std::string_view op, std::string_view operand,
                   const Tensor& tensor);  // 32 or 16 bits
// Rows of a tensor whose last axis has `columns` elements.
int64_t rows_of(std::string_view op, std::string_view operand, const Tensor& tensor,
                int64_t columns);

// The view is of floats and on the stream's device; its rows do not overlap and lie within the
// tensor.
void require_view(std::string_view op, std::string_view operand, const Stream& stream,
                  const MatrixView& view);

}  // namespace ds::kernels::detail
