// Softmax cross entropy of logits, and the same fused with the output projection, where logits
// exist for one block of rows at a time and are never materialised whole.
#pragma once

#include <functional>

#include "core/device/tensor.h"
#include "kernels/front/write.h"
#include "kernels/softmax/distillation_operands.h"
#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels {

// See softmax_operands.h. A target of V or more: on the CPU, DataError with its row, before
// anything is written; on a CUDA device nothing is read for it, its loss and its gradients become
// NaN, and DeviceFlag::kTargetOutsideVocabulary is set (core/device/device_flags.h).
void softmax_cross_entropy(Stream& stream, const SoftmaxCrossEntropyArgs& args);

// numbers, fp32 [n, 3]: the largest logit that is here, the sum of e^(logit - largest), and the
// logit of the target, or 0 where another rank has it. Reads logits and targets of `args`; a target
// outside of the vocabulary is found as above.
void softmax_part(Stream& stream, const SoftmaxCrossEntropyArgs& args, const VocabularyPart& part,
                  Tensor& numbers);
// softmax_cross_entropy() of rows of which `args` has this rank's columns. numbers, fp32 [ranks, n,
// 3]: what softmax_part() gave on each rank, in the order of the ranks, so that all of them get the
// same losses to the bit.
void softmax_cross_entropy_of_parts(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                    const VocabularyPart& part, const Tensor& numbers);

// A head of which each rank of a group has some rows.
struct SharedVocabulary {
  VocabularyPart part;
  int ranks = 1;
  // In place of softmax_cross_entropy(), whose operands it is given: of all ranks together, block
  // by block, for which it meets the others.
  std::function<void(const SoftmaxCrossEntropyArgs& block)> softmax;
  // In place of distilled_cross_entropy(), where there is a teacher.
  std::function<void(const DistilledCrossEntropyArgs& block)> distilled{};
};

struct LinearCrossEntropyArgs {
  Tensor x;       // [N, C]
  Tensor weight;  // [V, C]
  // int32 [N]; negative = ignored row. Where targets enter, they are checked against the
  // vocabulary; one of V or more is found here as softmax_cross_entropy() finds it, on the CPU
  // before any work.
  Tensor targets;
  Tensor row_weights{};  // see SoftmaxCrossEntropyArgs
  Tensor bias{};         // [V] or undefined; added to the logits of every row
  // fp32 [N]: -log softmax(x * weight^T + bias)[target], natural log; 0 for ignored rows.
  Tensor losses;
  // Backward in the same pass; all undefined for evaluation. Without dweight or dbias the gradient
  // of weight or bias is not computed.
  float grad_scale = 1.0F;             // d(total)/d(losses[i]), equal for all rows
  const double* loss_scale = nullptr;  // see SoftmaxCrossEntropyArgs
  Tensor dx = {};                      // [N, C]
  Tensor dweight = {};                 // [V, C]
  Write write_dweight = Write::kOverwrite;
  Tensor dbias = {};  // [V], with a bias
  Write write_dbias = Write::kOverwrite;
  float softcap = 0;  // c > 0: logits become c tanh(logit / c) before they are looked at
  const SharedVocabulary* shared = nullptr;  // where `weight` has some rows of a vocabulary
  // Losses are those of distilled_cross_entropy() where there is one. Where `shared` is, too, its
  // weight has the same rows of the teacher's.
  const TeacherHead* teacher = nullptr;
};
// Bytes of logits that a block of rows may have. More means fewer passes over dweight, which every
// block reads and writes whole, and more scratch; what that is worth depends on the device. A GPU
// would spend more time on dweight than on products with as few rows as a CPU's caches want.
int64_t loss_block_bytes(Device device);
// What logits are kept in between the product and the softmax, of an x of that dtype. On a CPU that
// is fp32. A GPU waits for memory there, so they have the 16 bits that x has: each is rounded once,
// as every other activation is; sums and losses are fp32 all the same.
DType logits_dtype(Device device, DType x);
// Elements from one row of these logits to the next. On a CPU rows lie end to end. A GPU's library
// has fast products only for operands whose rows all begin at 16 bytes, which those of a vocabulary
// of odd size do not: there a row has room for the next multiple of 64 elements. What lies behind
// its V logits is undefined, and nobody reads it.
int64_t logits_stride(Device device, int64_t vocabulary);
// Rows that a block holds; its logits, and as many rows of a teacher's, are scratch, allocated here
// from the stream under MemoryTag::kScratch.
int64_t linear_cross_entropy_rows(Device device, DType x, int64_t vocabulary);
void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args);

}  // namespace ds::kernels
