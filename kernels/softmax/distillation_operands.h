// How a student learns from a teacher: operands of distillation, and the head of a teacher whose
// logits are made beside those of the student.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"
#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels {

// The loss of a token: alpha times its cross entropy, and beta T^2 times the divergence of the
// student's softmax(z / T) from the teacher's softmax(t / T) (Hinton et al., arXiv 1503.02531;
// DeepSpeed's Mixture-of-Students, arXiv 2201.05596).
struct DistillationRule {
  double alpha = 0.5;      // 0 or more
  double beta = 0.5;       // 0 or more
  double temperature = 1;  // T, above 0
};

// With z the logits of a row of the student, t those of the teacher, w its weight, and
// KL = sum over v of p[v] log(p[v] / q[v]), p = softmax(t / T), q = softmax(z / T):
//
//   losses[i] = w (alpha CE(z, targets[i]) + beta T^2 KL)
//   gradient  = w grad_scale loss_scale (alpha (softmax(z) - onehot(targets[i])) + beta T (q - p))
//
// times the slope of the cap, over the student's logits, as softmax_cross_entropy() has it, whose
// bits these are where alpha is 1 and beta is 0. Equal rows have a divergence of 0, exactly, and no
// gradient of it. Where p[v] rounds to 0, z[v] and t[v] add nothing to KL. Arithmetic is fp32, and
// sums have a fixed order. Operands that do not fit throw InternalError.
struct DistilledCrossEntropyArgs {
  SoftmaxCrossEntropyArgs student;
  // [n, Vt], fp32, bf16 or fp16, capped and scaled as the teacher has them, in memory that is not
  // the student's; Vt at least 1 and at most V: the teacher gives no probability to columns from Vt
  // on. It is not written.
  MatrixView teacher;
  DistillationRule rule{};
  Tensor divergences{};  // fp32 [n], w T^2 KL, or undefined: nobody asks for it
};

// If a vocabulary is cut, each rank has the same columns of both, and Vt is V (see VocabularyPart).
inline constexpr int64_t kNumbersOfDistilledPart = 7;

// A teacher's logits are x * weight^T + bias, capped, in the dtype that logits of its x have. It
// may be as wide as it likes, and its vocabulary may be a beginning of the student's.
struct TeacherHead {
  Tensor x;           // [N, Ct], fp32, bf16 or fp16, whatever the student's is
  Tensor weight;      // [Vt, Ct], like x; Vt at least 1 and at most V
  Tensor bias{};      // [Vt] or undefined
  float softcap = 0;  // see LinearCrossEntropyArgs
  DistillationRule rule{};
  Tensor divergences{};  // fp32 [N] or undefined; see DistilledCrossEntropyArgs
};

}  // namespace ds::kernels
