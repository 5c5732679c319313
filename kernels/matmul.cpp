// Front of the matrix products; see matmul.h. Chooses the fp32 detour for dtypes that the machine has no
// product for, and runs the epilogue on each thread's block right after its product.
#include "kernels/matmul.h"

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/gemm.h"
#include "kernels/spans.h"

namespace ds::kernels {
namespace {

std::byte* address(const MatrixView& view, int64_t row, int64_t column) {
  const int64_t element = view.offset + row * view.row_stride + column;
  return static_cast<std::byte*>(view.tensor.raw()) +
         element * static_cast<int64_t>(size_of(view.tensor.dtype()));
}

void require_view(const Stream& stream, std::string_view operand, const MatrixView& view) {
  DS_CHECK(view.tensor.defined(), "matmul: {} is undefined", operand);
  detail::require_float("matmul", operand, view.tensor);
  DS_CHECK(view.tensor.device() == stream.device(), "matmul: {} is on {}, the stream on {}",
           operand, view.tensor.device().to_string(), stream.device().to_string());
  DS_CHECK(view.rows >= 0 && view.columns >= 0 && view.row_stride >= view.columns,
           "matmul: {} is {} x {} with row stride {}", operand, view.rows, view.columns,
           view.row_stride);
  const int64_t end =
      view.rows == 0 ? 0 : view.offset + (view.rows - 1) * view.row_stride + view.columns;
  DS_CHECK(view.offset >= 0 && end <= view.tensor.numel(),
           "matmul: {} ends at element {} of a tensor of {}", operand, end, view.tensor.numel());
}

struct Extents {
  int64_t m, n, k;
};

Extents extents_of(const MatmulArgs& args) {
  const bool ta = args.transpose_a == Transpose::kYes;
  const bool tb = args.transpose_b == Transpose::kYes;
  return {ta ? args.a.columns : args.a.rows, tb ? args.b.rows : args.b.columns,
          ta ? args.a.rows : args.a.columns};
}

void check(const Stream& stream, const MatmulArgs& args) {
  require_view(stream, "a", args.a);
  require_view(stream, "b", args.b);
  require_view(stream, "c", args.c);
  const auto [m, n, k] = extents_of(args);
  const int64_t b_rows = args.transpose_b == Transpose::kYes ? args.b.columns : args.b.rows;
  DS_CHECK(b_rows == k, "matmul: op(a) is {} x {}, op(b) is {} x {}", m, k, b_rows, n);
  DS_CHECK(args.c.rows == m && args.c.columns == n, "matmul: c is {} x {}, expected {} x {}",
           args.c.rows, args.c.columns, m, n);
  DS_CHECK(k > 0, "matmul: the inner extent is 0");
  const DType dtype = args.a.tensor.dtype();
  detail::require_dtype("matmul", "b", args.b.tensor, dtype);
  const DType c_dtype = args.c.tensor.dtype();
  DS_CHECK(c_dtype == dtype || c_dtype == DType::kF32, "matmul: c is {}, expected fp32 or {}",
           name_of(c_dtype), name_of(dtype));
  const bool epilogue = args.bias.defined() || args.activation != Activation::kNone ||
                        args.pre_activation.defined();
  DS_CHECK(args.write == Write::kOverwrite || !epilogue,
           "matmul: an accumulating product takes no bias and no activation");
  if (args.bias.defined()) {
    detail::require_numel("matmul", "bias", stream, args.bias, n);
    detail::require_float("matmul", "bias", args.bias);
  }
  if (args.pre_activation.defined()) {
    detail::require_numel("matmul", "pre_activation", stream, args.pre_activation, m * n);
    detail::require_dtype("matmul", "pre_activation", args.pre_activation, c_dtype);
  }
}

double bytes_of(const MatrixView& view) {
  return static_cast<double>(view.rows * view.columns) *
         static_cast<double>(size_of(view.tensor.dtype()));
}

// Scratch of the fp32 detour, allocated on every device alike so that the dry run sees it.
MatrixView scratch_like(Stream& stream, const MatrixView& view) {
  return matrix(Tensor::empty({view.rows, view.columns}, DType::kF32, stream, MemoryTag::kScratch),
                view.rows, view.columns);
}

void copy_rows(Stream& stream, const MatrixView& from, const MatrixView& to, Write write) {
  const auto copy = write == Write::kOverwrite ? detail::cast_span : detail::accumulate_span;
  stream.pool().parallel_for(from.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      copy(address(from, row, 0), from.tensor.dtype(), address(to, row, 0), to.tensor.dtype(),
           from.columns);
    }
  });
}

void run(Stream& stream, const MatmulArgs& args) {
  const auto [m, n, k] = extents_of(args);
  const bool keep = args.pre_activation.defined();
  const MatrixView product = keep ? matrix(args.pre_activation, m, n) : args.c;
  const detail::Gemm g{
      .m = m, .n = n, .k = k,
      .a = {address(args.a, 0, 0), args.a.tensor.dtype(), args.a.row_stride, args.transpose_a},
      .b = {address(args.b, 0, 0), args.b.tensor.dtype(), args.b.row_stride, args.transpose_b},
      .c = address(product, 0, 0),
      .c_dtype = product.tensor.dtype(),
      .c_row_stride = product.row_stride,
      .write = args.write,
      .bias = args.bias.defined() ? args.bias.raw() : nullptr,
      .bias_dtype = args.bias.defined() ? args.bias.dtype() : DType::kF32};
  if (!keep && args.activation == Activation::kNone) {
    detail::gemm(stream, g);
    return;
  }
  detail::gemm(stream, g, [&](const detail::GemmBlock& block) {
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      detail::activation_span(args.activation, address(product, row, block.column),
                              address(args.c, row, block.column), g.c_dtype, block.columns);
    }
  });
}

// The same product with every operand in fp32 scratch.
void run_through_fp32(Stream& stream, const MatmulArgs& args) {
  MatmulArgs wide = args;
  wide.a = scratch_like(stream, args.a);
  wide.b = scratch_like(stream, args.b);
  const bool own_c = args.c.tensor.dtype() != DType::kF32;
  if (own_c) {
    wide.c = scratch_like(stream, args.c);
    wide.write = Write::kOverwrite;
  }
  if (args.bias.defined()) {
    wide.bias = Tensor::empty(args.bias.shape(), DType::kF32, stream, MemoryTag::kScratch);
  }
  if (own_c && args.pre_activation.defined()) {
    wide.pre_activation =
        Tensor::empty({args.c.rows, args.c.columns}, DType::kF32, stream, MemoryTag::kScratch);
  }
  on_device(stream.device(), [&](Cpu) {
    copy_rows(stream, args.a, wide.a, Write::kOverwrite);
    copy_rows(stream, args.b, wide.b, Write::kOverwrite);
    if (args.bias.defined()) {
      detail::cast_span(args.bias.raw(), args.bias.dtype(), wide.bias.raw(), DType::kF32,
                        args.bias.numel());
    }
    run(stream, wide);
    if (!own_c) return;
    copy_rows(stream, wide.c, args.c, args.write);
    if (args.pre_activation.defined()) {
      const auto view = [&](const Tensor& t) { return matrix(t, args.c.rows, args.c.columns); };
      copy_rows(stream, view(wide.pre_activation), view(args.pre_activation), Write::kOverwrite);
    }
  });
}

}  // namespace

MatrixView matrix(const Tensor& tensor, int64_t rows, int64_t columns) {
  DS_CHECK(tensor.numel() == rows * columns, "matrix: {} x {} of a tensor of shape {}", rows,
           columns, tensor.shape().to_string());
  return {tensor, rows, columns, columns, 0};
}

MatrixView columns_of(const MatrixView& view, int64_t first, int64_t count) {
  DS_CHECK(first >= 0 && count >= 0 && first + count <= view.columns,
           "columns_of: columns [{}, {}) of {}", first, first + count, view.columns);
  return {view.tensor, view.rows, count, view.row_stride, view.offset + first};
}

void matmul(Stream& stream, const MatmulArgs& args) {
  check(stream, args);
  const auto [m, n, k] = extents_of(args);
  const double writes = args.write == Write::kAccumulate || args.pre_activation.defined() ? 2 : 1;
  stream.record("matmul", {.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                                    static_cast<double>(k),
                           .bytes = bytes_of(args.a) + bytes_of(args.b) + writes * bytes_of(args.c)});
  const DType dtype = args.a.tensor.dtype();
  const bool bias_fits = !args.bias.defined() || args.bias.dtype() != DType::kF16;
  if (detail::gemm_supports(stream, dtype) && bias_fits) {
    on_device(stream.device(), [&](Cpu) { run(stream, args); });
  } else {
    run_through_fp32(stream, args);
  }
}

}  // namespace ds::kernels
