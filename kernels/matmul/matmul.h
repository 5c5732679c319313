// Matrix products of fp32, bf16 or fp16 operands, accumulated in fp32, with bias and activation
// fused into the store. The bits of a result depend on the machine's instruction set, never on the
// number of threads.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/activation_kind.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"
#include "kernels/matmul/matmul_choices.h"

namespace ds::kernels {

struct MatmulArgs {
  MatrixView a;  // [M, K], or [K, M] when transposed
  MatrixView b;  // [K, N], or [N, K] when transposed
  MatrixView c;  // [M, N]; dtype fp32 or that of a
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  Write write = Write::kOverwrite;
  Tensor bias = {};                           // [N] or undefined; added to every row
  Activation activation = Activation::kNone;  // applied after the bias
  Tensor pre_activation = {};  // [M, N] or undefined: receives a*b + bias before activation
  // In a backward pass c = a*b f'(activation_input) is the gradient before this activation, and a*b
  // that behind it. The input is [M, N], of the dtype of c, whose rows then lie end to end.
  Activation activation_backward = Activation::kNone;
  Tensor activation_input = {};
  // Receives, or has added, the column sums of a factor as it is stored: the gradient of a bias,
  // where the factor is that of a layer's result. That is [N] of b, which is not transposed then,
  // or [M] of a, which is.
  Tensor bias_gradient = {};
  Factor bias_gradient_of = Factor::kB;
  Write write_bias_gradient = Write::kOverwrite;
};
// c = activation(op(a) * op(b) + bias), or c += op(a) * op(b) (then no bias, no activation,
// and none undone). Activations are undone and columns summed with the bits that
// activation_backward() and column_sum() have, except where a GPU's library does it by itself.
void matmul(Stream& stream, const MatmulArgs& args);

// Takes the scratch memory that products of a CUDA stream have as long as it lives, from
// stream.memory() under MemoryTag::kScratch; else the first product does. Called before memory is
// planned by what comes and goes. Streams of CPUs, and of meta that stand for them, have none.
void reserve_matmul_scratch(Stream& stream);
int64_t matmul_scratch_bytes(Device device);  // how much that is

// How products of a CUDA stream are made where its library has a choice.
struct MatmulRules {
  // Factors of fp32 are rounded to TF32, which has 10 bits behind the point, as tensor cores take
  // them; sums stay fp32.
  bool allow_tf32 = false;
  // The quickest of the library's algorithms is found by trying, when products of a shape are first
  // made, and kept here; null: the first one that the library proposes. Not owned; it outlives the
  // stream. Those that a graph records first are not tried, nor those that add to their result:
  // these take what was found for products that do not.
  MatmulChoices* choices = nullptr;
};
// Told before the first product. Streams of CPUs, and of meta, do nothing with it: the CPU
// multiplies fp32 as it is, and its libraries choose by themselves.
void set_matmul_rules(Stream& stream, const MatmulRules& rules);
// Whose algorithms there are to choose among; nothing where there is one way to make a product, as
// on the CPU and on the emulated device. Throws what opening the library throws.
std::optional<MatmulPlace> matmul_place(Device device);

}  // namespace ds::kernels
