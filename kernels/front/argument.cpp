// See argument.h.
#include "kernels/front/argument.h"

namespace ds::kernels::detail {

void require_numel(std::string_view op, std::string_view operand, const Stream& stream,
                   const Tensor& tensor, int64_t numel) {
  DS_CHECK(tensor.defined(), "{}: {} is undefined, expected {} elements", op, operand, numel);
  DS_CHECK(tensor.numel() == numel, "{}: {} has shape {} ({} elements), expected {} elements", op,
           operand, tensor.shape().to_string(), tensor.numel(), numel);
  DS_CHECK(tensor.device() == stream.device(), "{}: {} is on {}, the stream on {}", op, operand,
           tensor.device().to_string(), stream.device().to_string());
}

void require_dtype(std::string_view op, std::string_view operand, const Tensor& tensor,
                   DType dtype) {
  DS_CHECK(tensor.dtype() == dtype, "{}: {} is {}, expected {}", op, operand,
           name_of(tensor.dtype()), name_of(dtype));
}

void require_like(std::string_view op, std::string_view operand, const Stream& stream,
                  const Tensor& tensor, int64_t numel, DType dtype) {
  require_numel(op, operand, stream, tensor, numel);
  require_dtype(op, operand, tensor, dtype);
}

void require_float(std::string_view op, std::string_view operand, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  DS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
           "{}: {} is {}, expected fp32, bf16 or fp16", op, operand, name_of(dtype));
}

int64_t rows_of(std::string_view op, std::string_view operand, const Tensor& tensor,
                int64_t columns) {
  DS_CHECK(tensor.defined(), "{}: {} is undefined", op, operand);
  DS_CHECK(columns > 0 && tensor.numel() % columns == 0,
           "{}: {} has shape {}, expected rows of {} elements", op, operand,
           tensor.shape().to_string(), columns);
  return tensor.numel() / columns;
}

void require_view(std::string_view op, std::string_view operand, const Stream& stream,
                  const MatrixView& view) {
  DS_CHECK(view.tensor.defined(), "{}: {} is undefined", op, operand);
  require_float(op, operand, view.tensor);
  DS_CHECK(view.tensor.device() == stream.device(), "{}: {} is on {}, the stream on {}", op,
           operand, view.tensor.device().to_string(), stream.device().to_string());
  DS_CHECK(view.rows >= 0 && view.columns >= 0 && view.row_stride >= view.columns,
           "{}: {} is {} x {} with row stride {}", op, operand, view.rows, view.columns,
           view.row_stride);
  const int64_t end =
      view.rows == 0 ? 0 : view.offset + (view.rows - 1) * view.row_stride + view.columns;
  DS_CHECK(view.offset >= 0 && end <= view.tensor.numel(),
           "{}: {} ends at element {} of a tensor of {}", op, operand, end, view.tensor.numel());
}

}  // namespace ds::kernels::detail
