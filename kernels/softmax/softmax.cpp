// Softmax cross entropy, and fused with the output projection; see softmax.h. There, per block of
// rows: logits by one product, loss and gradient in place on each row, then the two products of the
// backward.
#include "kernels/softmax/softmax.h"

#include <algorithm>

#include "core/device/dispatch.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/front/costs.h"
#include "kernels/matmul/matmul.h"
#include "kernels/reduce/reduce.h"
#include "kernels/softmax/distillation.h"
#include "kernels/softmax/softmax_check.h"
#include "kernels/softmax/softmax_cpu.h"
#include "kernels/softmax/softmax_cuda.h"

namespace ds::kernels {
namespace {

using detail::bytes_of, detail::numel_of;

constexpr std::string_view kLossOp = "linear_cross_entropy";

struct Extents {
  int64_t rows, width, vocabulary;
};

Extents check(const Stream& stream, const LinearCrossEntropyArgs& args) {
  DS_CHECK(args.weight.defined() && args.weight.shape().rank() == 2,
           "{}: weight is not a matrix [V, C]", kLossOp);
  const int64_t vocabulary = args.weight.shape()[0];
  const int64_t width = args.weight.shape()[1];
  const int64_t rows = detail::rows_of(kLossOp, "x", args.x, width);
  detail::require_numel(kLossOp, "x", stream, args.x, rows * width);
  detail::require_float(kLossOp, "x", args.x);
  detail::require_numel(kLossOp, "weight", stream, args.weight, vocabulary * width);
  detail::require_dtype(kLossOp, "weight", args.weight, args.x.dtype());
  detail::check_loss_rows(kLossOp, stream, args, rows);
  if (args.bias.defined()) {
    detail::require_numel(kLossOp, "bias", stream, args.bias, vocabulary);
    detail::require_float(kLossOp, "bias", args.bias);
  }
  DS_CHECK(args.softcap >= 0, "{}: logits capped at {}", kLossOp, args.softcap);
  DS_CHECK(!args.dbias.defined() || (args.bias.defined() && args.dx.defined()),
           "{}: dbias is given without a bias or without dx", kLossOp);
  DS_CHECK(!args.dweight.defined() || args.dx.defined(), "{}: dweight is given without dx",
           kLossOp);
  if (args.dx.defined()) {
    detail::require_numel(kLossOp, "dx", stream, args.dx, rows * width);
    detail::require_dtype(kLossOp, "dx", args.dx, args.x.dtype());
  }
  if (args.dweight.defined()) {
    detail::require_numel(kLossOp, "dweight", stream, args.dweight, vocabulary * width);
    DS_CHECK(args.dweight.dtype() == args.x.dtype() || args.dweight.dtype() == DType::kF32,
             "{}: dweight is {}, expected fp32 or {}", kLossOp, name_of(args.dweight.dtype()),
             name_of(args.x.dtype()));
  }
  if (args.teacher != nullptr) {
    detail::check_teacher(kLossOp, stream, *args.teacher, rows, vocabulary);
    DS_CHECK(args.shared == nullptr || args.shared->distilled != nullptr,
             "{}: ranks that share a vocabulary have no loss with a teacher", kLossOp);
  }
  return {rows, width, vocabulary};
}

MatrixView rows_of_matrix(const Tensor& tensor, int64_t first, int64_t count, int64_t width) {
  return {tensor, count, width, width, first * width};
}

// The gradients of a block, in the dtype of x, over the logits.
MatrixView gradient_view(const MatrixView& logits, DType dtype) {
  const auto of_logit = static_cast<int64_t>(size_of(logits.tensor.dtype()) / size_of(dtype));
  return {logits.tensor.reinterpret(dtype), logits.rows, logits.columns,
          logits.row_stride * of_logit, logits.offset * of_logit};
}

SoftmaxCrossEntropyArgs softmax_of_block(const LinearCrossEntropyArgs& args,
                                         const MatrixView& logits, int64_t first) {
  return {.logits = logits,
          .targets = args.targets.narrow(first, logits.rows),
          .row_weights =
              args.row_weights.defined() ? args.row_weights.narrow(first, logits.rows) : Tensor(),
          .losses = args.losses.narrow(first, logits.rows),
          .grad_scale = args.grad_scale,
          .loss_scale = args.loss_scale,
          .softcap = args.softcap,
          .gradients = args.dx.defined() ? std::optional(args.x.dtype()) : std::nullopt};
}

// What logits are made of.
struct Head {
  const Tensor& x;
  const Tensor& weight;
  const Tensor& bias;
  float softcap;
};

// The rows of x from `first` on, whose logits these become.
void make_logits(Stream& stream, const Head& head, const MatrixView& logits, int64_t first) {
  const int64_t width = head.weight.shape()[1];
  matmul(stream, {.a = rows_of_matrix(head.x, first, logits.rows, width),
                  .b = matrix(head.weight, logits.columns, width),
                  .c = logits,
                  .transpose_b = Transpose::kYes,
                  .bias = head.bias});
  if (head.softcap > 0) {
    Tensor rows = logits.tensor.narrow(0, logits.rows * logits.row_stride);
    softcap(stream, head.softcap, rows);
  }
}

// The logits of a block, and the teacher's, if there is one; memory for a block, which each takes.
struct BlockLogits {
  MatrixView student;
  MatrixView teacher{};

  BlockLogits of_rows(int64_t rows) const {
    BlockLogits block = *this;
    block.student.rows = block.teacher.rows = rows;
    return block;
  }
};

// Losses of a block, and gradients over its logits.
void run_losses(Stream& stream, const LinearCrossEntropyArgs& args, const BlockLogits& logits,
                int64_t first) {
  const SoftmaxCrossEntropyArgs block = softmax_of_block(args, logits.student, first);
  const SharedVocabulary* const shared = args.shared;
  if (args.teacher == nullptr) {
    shared != nullptr ? shared->softmax(block) : softmax_cross_entropy(stream, block);
    return;
  }
  const TeacherHead& teacher = *args.teacher;
  make_logits(stream, {teacher.x, teacher.weight, teacher.bias, teacher.softcap}, logits.teacher,
              first);
  const DistilledCrossEntropyArgs distilled{
      .student = block,
      .teacher = logits.teacher,
      .rule = teacher.rule,
      .divergences = teacher.divergences.defined()
                         ? teacher.divergences.narrow(first, logits.teacher.rows)
                         : Tensor()};
  shared != nullptr ? shared->distilled(distilled) : distilled_cross_entropy(stream, distilled);
}

// The rows from `first` on.
void run_block(Stream& stream, const LinearCrossEntropyArgs& args, const BlockLogits& block,
               int64_t first) {
  const MatrixView& logits = block.student;
  const int64_t width = args.weight.shape()[1];
  make_logits(stream, {args.x, args.weight, args.bias, args.softcap}, logits, first);
  run_losses(stream, args, block, first);
  if (!args.dx.defined()) return;
  const MatrixView dlogits = gradient_view(logits, args.x.dtype());
  matmul(stream, {.a = dlogits,
                  .b = matrix(args.weight, logits.columns, width),
                  .c = rows_of_matrix(args.dx, first, logits.rows, width)});
  const Write write_bias = first == 0 ? args.write_dbias : Write::kAccumulate;
  if (!args.dweight.defined()) {
    Tensor bias = args.dbias;
    if (bias.defined()) column_sum(stream, dlogits, write_bias, bias);
    return;
  }
  matmul(stream, {.a = dlogits,
                  .b = rows_of_matrix(args.x, first, logits.rows, width),
                  .c = matrix(args.dweight, logits.columns, width),
                  .transpose_a = Transpose::kYes,
                  .write = first == 0 ? args.write_dweight : Write::kAccumulate,
                  .bias_gradient = args.dbias,
                  .bias_gradient_of = Factor::kA,
                  .write_bias_gradient = write_bias});
}

void clear(Stream& stream, Tensor gradient, Write write) {
  if (gradient.defined() && write == Write::kOverwrite) fill(stream, gradient, 0.0F);
}

}  // namespace

void softmax_cross_entropy(Stream& stream, const SoftmaxCrossEntropyArgs& args) {
  constexpr std::string_view kOp = "softmax_cross_entropy";
  detail::check_logits(kOp, stream, args);
  stream.report(kOp, {.flops = 20 * numel_of(args.logits), .bytes = 3 * bytes_of(args.logits)});
  on_device(
      stream, [&](Cpu) { detail::softmax_cross_entropy_cpu(stream, args); },
      [&](Cuda) { detail::softmax_cross_entropy_cuda(stream, args); });
}

void softmax_part(Stream& stream, const SoftmaxCrossEntropyArgs& args, const VocabularyPart& part,
                  Tensor& numbers) {
  constexpr std::string_view kOp = "softmax_part";
  detail::check_logits(kOp, stream, args);
  detail::check_part(kOp, args, part, numbers, kNumbersOfPart);
  detail::require_numel(kOp, "numbers", stream, numbers, args.logits.rows * kNumbersOfPart);
  stream.report(kOp, {.flops = 10 * numel_of(args.logits), .bytes = bytes_of(args.logits)});
  on_device(
      stream, [&](Cpu) { detail::softmax_part_cpu(stream, args, part, numbers); },
      [&](Cuda) { detail::softmax_part_cuda(stream, args, part, numbers); });
}

void softmax_cross_entropy_of_parts(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                    const VocabularyPart& part, const Tensor& numbers) {
  constexpr std::string_view kOp = "softmax_cross_entropy_of_parts";
  detail::check_logits(kOp, stream, args);
  const int64_t ranks = detail::check_part(kOp, args, part, numbers, kNumbersOfPart);
  detail::require_numel(kOp, "numbers", stream, numbers, ranks * args.logits.rows * kNumbersOfPart);
  const bool backward = args.gradients.has_value();
  stream.report(kOp, {.flops = backward ? 10 * numel_of(args.logits) : 0.0,
                      .bytes = static_cast<double>(numbers.bytes()) +
                               (backward ? 2.0 * bytes_of(args.logits) : 0.0)});
  on_device(
      stream, [&](Cpu) { detail::softmax_cross_entropy_of_parts_cpu(stream, args, part, numbers); },
      [&](Cuda) { detail::softmax_cross_entropy_of_parts_cuda(stream, args, part, numbers); });
}

int64_t loss_block_bytes(Device device) {
  return device.kind == Device::Kind::kCuda ? int64_t{1} << 30 : int64_t{64} << 20;
}

DType logits_dtype(Device device, DType x) {
  return device.kind == Device::Kind::kCuda ? x : DType::kF32;
}

int64_t logits_stride(Device device, int64_t vocabulary) {
  return device.kind == Device::Kind::kCuda ? round_up(vocabulary, 64) : vocabulary;
}

int64_t linear_cross_entropy_rows(Device device, DType x, int64_t vocabulary) {
  const int64_t most = device.kind == Device::Kind::kCuda ? 8192 : 1024;
  const auto of_logit = static_cast<int64_t>(size_of(logits_dtype(device, x)));
  const int64_t fit = loss_block_bytes(device) / (logits_stride(device, vocabulary) * of_logit);
  return std::clamp<int64_t>(fit / 32 * 32, 32, most);
}

void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args) {
  const auto [rows, width, vocabulary] = check(stream, args);
  const SharedVocabulary* const shared = args.shared;
  const int64_t all = shared != nullptr ? shared->part.vocabulary : vocabulary;
  on_device(
      stream, [&](Cpu) { detail::check_targets_cpu(kLossOp, args.targets, all); },
      [](Cuda) {});  // there the kernel finds them
  if (rows == 0) {   // no block of rows will write them
    clear(stream, args.dweight, args.write_dweight);
    clear(stream, args.dbias, args.write_dbias);
  }
  const Device device = stream.stands_for();
  const DType dtype = args.x.dtype();
  // Alike on all ranks, some of which have a row of the vocabulary more.
  const int64_t share = shared != nullptr ? (all + shared->ranks - 1) / shared->ranks : vocabulary;
  const int64_t block = std::min(rows, linear_cross_entropy_rows(device, dtype, share));
  const auto room_of = [&](int64_t words, DType x) {
    const int64_t stride = logits_stride(device, words);
    return MatrixView{
        Tensor::empty({block, stride}, logits_dtype(device, x), stream, MemoryTag::kScratch), block,
        words, stride, 0};
  };
  BlockLogits room{.student = room_of(vocabulary, dtype)};
  if (args.teacher != nullptr) {
    room.teacher = room_of(args.teacher->weight.shape()[0], args.teacher->x.dtype());
  }
  for (int64_t first = 0; first < rows; first += block) {
    run_block(stream, args, room.of_rows(std::min(block, rows - first)), first);
  }
}

}  // namespace ds::kernels
