// The fused projection and cross entropy of a student beside its teacher's, against the formulas in
// fp64.
#include <cmath>

#include "kernels/softmax/softmax.h"
#include "tests/kernels/distillation/distilled_reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr int64_t kWidth = 9, kTeacherWidth = 13;

struct HeadSizes {
  int64_t rows, vocabulary, teacher_vocabulary;
};

// A student and its teacher, whose arguments the student's point to.
struct Heads {
  Heads(const HeadSizes& sizes, DType dtype, DType of_teacher, Stream& stream)
      : targets(distilled_targets(sizes.rows, sizes.vocabulary)) {
    const auto random = [&](const Shape& shape, DType type, uint64_t seed) {
      return random_tensor(shape, type, seed, stream, 0.6);
    };
    const int64_t rows = sizes.rows, words = sizes.teacher_vocabulary;
    teacher = {.x = random({rows, kTeacherWidth}, of_teacher, 11),
               .weight = random({words, kTeacherWidth}, of_teacher, 12),
               .bias = random({words}, of_teacher, 13),
               .rule = {.alpha = 0.4, .beta = 0.6, .temperature = 2},
               .divergences = Tensor::empty({rows}, DType::kF32, stream)};
    args = {.x = random({rows, kWidth}, dtype, 1),
            .weight = random({sizes.vocabulary, kWidth}, dtype, 2),
            .targets = tokens_of(targets, stream),
            .bias = random({sizes.vocabulary}, dtype, 3),
            .losses = Tensor::empty({rows}, DType::kF32, stream),
            .grad_scale = 0.25F,
            .dx = Tensor::empty({rows, kWidth}, dtype, stream),
            .dweight = Tensor::empty({sizes.vocabulary, kWidth}, DType::kF32, stream),
            .dbias = Tensor::empty({sizes.vocabulary}, DType::kF32, stream),
            .teacher = &teacher};
  }
  Heads(const Heads&) = delete;
  Heads& operator=(const Heads&) = delete;
  std::vector<int32_t> targets;
  TeacherHead teacher;
  LinearCrossEntropyArgs args;
};

Values logits_of(const Values& x, const Values& weight, const Values& bias, double cap) {
  const auto words = std::ssize(bias);
  const auto width = std::ssize(weight) / words;
  Values logits = matmul(x, weight, std::ssize(x) / width, words, width, false, true);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] += bias[i % bias.size()];
    if (cap > 0) logits[i] = cap * std::tanh(logits[i] / cap);
  }
  return logits;
}

Distilled expected_of(const Heads& heads, const Values& x, const Values& weight,
                      const Values& bias) {
  const TeacherHead& teacher = heads.teacher;
  return distilled(
      {.student = logits_of(x, weight, bias, double{heads.args.softcap}),
       .teacher = logits_of(values_of(teacher.x), values_of(teacher.weight),
                            values_of(teacher.bias), double{teacher.softcap}),
       .columns = heads.args.weight.shape()[0],
       .teacher_columns = teacher.weight.shape()[0],
       .targets = heads.targets,
       .weights = heads.args.row_weights.defined() ? values_of(heads.args.row_weights) : Values()},
      teacher.rule);
}

double total(const Distilled& d) { return 0.25 * dot(d.losses, Values(d.losses.size(), 1.0)); }

// Losses are fp32; logits of either may have been rounded to 16 bits before.
double loss_tolerance(const Heads& heads, const Stream& stream) {
  double tolerance = 5e-6;
  for (const DType x : {heads.args.x.dtype(), heads.teacher.x.dtype()}) {
    const DType logits = logits_dtype(stream.device(), x);
    if (logits != DType::kF32) tolerance = std::max(tolerance, 2 * tolerance_of(logits));
  }
  return tolerance;
}

void check_heads(Stream& stream, const Heads& heads) {
  linear_cross_entropy(stream, heads.args);
  const Values x = values_of(heads.args.x), weight = values_of(heads.args.weight);
  const Values bias = values_of(heads.args.bias);
  const Distilled expected = expected_of(heads, x, weight, bias);
  const double of_losses = loss_tolerance(heads, stream);
  REQUIRE(error_of(heads.args.losses, expected.losses) < of_losses);
  REQUIRE(error_of(heads.teacher.divergences, expected.divergences) < 2 * of_losses);
  const double tolerance = std::max(2 * tolerance_of(heads.args.x.dtype()), 2 * of_losses);
  const auto numeric = [&](const auto& loss, const Values& at) {
    return numeric_gradient([&](const Values& v) { return total(loss(v)); }, at);
  };
  REQUIRE(error_of(heads.args.dx,
                   numeric([&](auto& v) { return expected_of(heads, v, weight, bias); }, x)) <
          tolerance);
  REQUIRE(error_of(heads.args.dweight,
                   numeric([&](auto& v) { return expected_of(heads, x, v, bias); }, weight)) <
          tolerance);
  REQUIRE(error_of(heads.args.dbias,
                   numeric([&](auto& v) { return expected_of(heads, x, weight, v); }, bias)) <
          tolerance);
}

TEST_CASE("losses and gradients of a student's projection match the formulas",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const DType of_teacher : {DType::kF32, DType::kBF16}) {
      for (const bool is_capped : {false, true}) {
        CAPTURE(name_of(dtype), name_of(of_teacher), is_capped);
        Heads heads({.rows = 5, .vocabulary = 17, .teacher_vocabulary = is_capped ? 17 : 12}, dtype,
                    of_teacher, s.stream);
        if (is_capped) {
          heads.args.softcap = 3;
          heads.teacher.softcap = 1.5F;
          heads.args.row_weights = tensor_of({1, 0.5, 1, 2, 0}, {5}, DType::kF32, s.stream);
        }
        check_heads(s.stream, heads);
      }
    }
  }
}

// More than a block has.
int64_t many_rows(const Stream& stream) {
  return linear_cross_entropy_rows(stream.device(), DType::kF32, 20) + 37;
}

TEST_CASE("a student's rows have the same losses whatever block they are in, and in evaluation",
          "[kernels][device]") {
  TestStream s;
  const int64_t rows = many_rows(s.stream);
  Heads heads({.rows = rows, .vocabulary = 20, .teacher_vocabulary = 15}, DType::kF32, DType::kF32,
              s.stream);
  linear_cross_entropy(s.stream, heads.args);
  const Distilled expected = expected_of(heads, values_of(heads.args.x),
                                         values_of(heads.args.weight), values_of(heads.args.bias));
  CHECK(error_of(heads.args.losses, expected.losses) < 5e-6);
  CHECK(error_of(heads.teacher.divergences, expected.divergences) < 5e-6);
  Values gradients = expected.gradients;
  for (double& g : gradients) g *= 0.25;
  CHECK(error_of(heads.args.dx, matmul(gradients, values_of(heads.args.weight), rows, kWidth, 20,
                                       false, false)) < 1e-5);
  CHECK(error_of(heads.args.dweight,
                 matmul(gradients, values_of(heads.args.x), 20, kWidth, rows, true, false)) < 1e-5);
  const Values losses = values_of(heads.args.losses);
  const Values divergences = values_of(heads.teacher.divergences);
  heads.args.dx = heads.args.dweight = heads.args.dbias = {};
  heads.teacher.divergences = Tensor::empty({rows}, DType::kF32, s.stream);
  linear_cross_entropy(s.stream, heads.args);
  CHECK(values_of(heads.args.losses) == losses);
  CHECK(values_of(heads.teacher.divergences) == divergences);
}

TEST_CASE("a teacher that nothing is learnt by leaves the bits of the projection",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    CAPTURE(name_of(dtype));
    const HeadSizes sizes{.rows = 40, .vocabulary = 50, .teacher_vocabulary = 50};
    Heads with(sizes, dtype, dtype, s.stream), without(sizes, dtype, dtype, s.stream);
    with.teacher.rule = {.alpha = 1, .beta = 0, .temperature = 2};
    without.args.teacher = nullptr;
    linear_cross_entropy(s.stream, with.args);
    linear_cross_entropy(s.stream, without.args);
    CHECK(same_bits(with.args.losses, without.args.losses));
    CHECK(same_bits(with.args.dx, without.args.dx));
    CHECK(same_bits(with.args.dweight, without.args.dweight));
    CHECK(same_bits(with.args.dbias, without.args.dbias));
  }
}

TEST_CASE("ranks that share a vocabulary are given the block of a student and of its teacher",
          "[kernels][device]") {
  TestStream s;
  const HeadSizes sizes{.rows = 40, .vocabulary = 50, .teacher_vocabulary = 50};
  Heads alone(sizes, DType::kF32, DType::kF32, s.stream);
  Heads shared(sizes, DType::kF32, DType::kF32, s.stream);
  SharedVocabulary vocabulary{
      .part = {.first = 0, .vocabulary = 50},
      .ranks = 1,
      .softmax = [](const SoftmaxCrossEntropyArgs&) { FAIL("there is a teacher"); }};
  shared.args.shared = &vocabulary;
  CHECK_THROWS_WITH(linear_cross_entropy(s.stream, shared.args),
                    Catch::Contains("share a vocabulary have no loss with a teacher"));
  int blocks = 0;
  vocabulary.distilled = [&](const DistilledCrossEntropyArgs& block) {
    ++blocks;
    Tensor numbers =
        Tensor::empty({block.student.logits.rows, kNumbersOfDistilledPart}, DType::kF32, s.stream);
    distillation_part(s.stream, block, vocabulary.part, numbers);
    distilled_cross_entropy_of_parts(s.stream, block, vocabulary.part, numbers);
  };
  linear_cross_entropy(s.stream, alone.args);
  linear_cross_entropy(s.stream, shared.args);
  CHECK(blocks == 1);
  CHECK(same_bits(shared.args.losses, alone.args.losses));
  CHECK(same_bits(shared.teacher.divergences, alone.teacher.divergences));
  CHECK(same_bits(shared.args.dweight, alone.args.dweight));
}

}  // namespace
}  // namespace ds::kernels
