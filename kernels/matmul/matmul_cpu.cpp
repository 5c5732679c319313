// The CPU half of products: gemm() of kernels/gemm makes them, and loops of their own what a
// backward has beside them.
#include "kernels/matmul/matmul_cpu.h"

#include "kernels/elementwise/activation_cpu.h"
#include "kernels/matmul/matmul_operands.h"
#include "kernels/reduce/reduce_cpu.h"

namespace ds::kernels::detail {

void matmul_cpu(Stream& stream, const MatmulArgs& args) {
  gemm(stream, gemm_of(args));
  if (args.activation_backward != Activation::kNone) {
    Tensor c = args.c.tensor.narrow(args.c.offset, args.c.rows * args.c.columns);
    activation_backward_cpu(stream, args.activation_backward, args.activation_input, c, c);
  }
  if (args.bias_gradient.defined()) {
    Tensor sums = args.bias_gradient;
    column_sum_cpu(stream, args.bias_gradient_of == Factor::kA ? args.a : args.b,
                   args.write_bias_gradient, sums);
  }
}

}  // namespace ds::kernels::detail
