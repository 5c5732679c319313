// Losses with a teacher refuse operands that do not fit; see tests/kernels/refusals_test.cpp.
#include <functional>
#include <limits>

#include "kernels/softmax/distillation.h"
#include "kernels/softmax/softmax.h"
#include "kernels/value_loss/hidden_loss.h"
#include "tests/support/refusals.h"

namespace ds::kernels {
namespace {

using refusals::check_refused, refusals::Maker;

TEST_CASE("the fused loss refuses a teacher that does not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const LinearCrossEntropyArgs student{.x = make({3, 4}),
                                       .weight = make({7, 4}),
                                       .targets = make({3}, DType::kI32),
                                       .losses = make({3})};
  const TeacherHead right{.x = make({3, 5}, DType::kBF16),
                          .weight = make({6, 5}, DType::kBF16),
                          .bias = make({6}),
                          .divergences = make({3})};
  const auto with = [&](const std::function<void(TeacherHead&)>& change) {
    return [&, change] {
      TeacherHead teacher = right;
      change(teacher);
      LinearCrossEntropyArgs args = student;
      args.teacher = &teacher;
      linear_cross_entropy(s, args);
    };
  };
  CHECK_NOTHROW(with([](auto&) {})());
  check_refused({
      {"the teacher's weight is not a matrix [V, C]",
       with([&](auto& t) { t.weight = make({30}, DType::kBF16); })},
      {"the teacher's vocabulary has 8 words, expected 1 to 7 (the student's)", with([&](auto& t) {
         t.weight = make({8, 5}, DType::kBF16);
       })},
      {"the teacher's vocabulary has 0 words", with([&](auto& t) {
         t.weight = make({0, 5}, DType::kBF16);
       })},
      {"the teacher's x has shape [2, 5] (10 elements), expected 15", with([&](auto& t) {
         t.x = make({2, 5}, DType::kBF16);
       })},
      {"the teacher's x is int32", with([&](auto& t) {
         t.x = make({3, 5}, DType::kI32);
       })},
      {"the teacher's weight is fp32, expected bf16", with([&](auto& t) {
         t.weight = make({6, 5});
       })},
      {"the teacher's bias has shape [7]", with([&](auto& t) { t.bias = make({7}); })},
      {"the teacher's bias is int32", with([&](auto& t) { t.bias = make({6}, DType::kI32); })},
      {"the teacher's logits capped at -1", with([](auto& t) { t.softcap = -1; })},
      {"alpha is -1, expected 0 or more", with([](auto& t) { t.rule.alpha = -1; })},
      {"divergences is bf16, expected fp32",
       with([&](auto& t) { t.divergences = make({3}, DType::kBF16); })},
  });
}

TEST_CASE("distillation refuses operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const double infinity = std::numeric_limits<double>::infinity();
  const DistilledCrossEntropyArgs right{.student = {.logits = matrix(make({3, 7}), 3, 7),
                                                    .targets = make({3}, DType::kI32),
                                                    .losses = make({3})},
                                        .teacher = matrix(make({3, 6}), 3, 6)};
  CHECK_NOTHROW(distilled_cross_entropy(s, right));
  using Change = std::function<void(DistilledCrossEntropyArgs&)>;
  const auto changed = [&](const Change& change) {
    DistilledCrossEntropyArgs args = right;
    change(args);
    return args;
  };
  const auto with = [&](const Change& change) {
    return [&, change] { distilled_cross_entropy(s, changed(change)); };
  };
  const auto in_parts = [&](const Change& change, const Shape& numbers) {
    return [&, change, numbers] {
      const DistilledCrossEntropyArgs args = changed(change);
      distilled_cross_entropy_of_parts(s, args, {.first = 1, .vocabulary = 9}, make(numbers));
    };
  };
  const Change whole = [&](auto& a) { a.teacher = matrix(make({3, 7}), 3, 7); };
  CHECK_NOTHROW(in_parts(whole, {2, 3, 7})());
  check_refused({
      {"distilled_cross_entropy: targets is fp32, expected int32",
       with([&](auto& a) { a.student.targets = make({3}); })},
      {"gradients of fp32 logits are int32",
       with([](auto& a) { a.student.gradients = DType::kI32; })},
      {"the teacher's logits is undefined", with([](auto& a) { a.teacher = {}; })},
      {"logits of 3 rows and the teacher's of 2", with([&](auto& a) {
         a.teacher = matrix(make({2, 6}), 2, 6);
       })},
      {"the teacher's logits have 8 columns, expected 1 to 7 (the student's)", with([&](auto& a) {
         a.teacher = matrix(make({3, 8}), 3, 8);
       })},
      {"the teacher's logits have 0 columns", with([&](auto& a) {
         a.teacher = matrix(make({3, 0}), 3, 0);
       })},
      {"divergences has shape [2]", with([&](auto& a) { a.divergences = make({2}); })},
      {"alpha is inf", with([&](auto& a) { a.rule.alpha = infinity; })},
      {"beta is -0.5, expected 0 or more", with([](auto& a) { a.rule.beta = -0.5; })},
      {"a temperature of 0, expected more than 0", with([](auto& a) { a.rule.temperature = 0; })},
      {"a temperature of inf", with([&](auto& a) { a.rule.temperature = infinity; })},
      {"a part of 6 columns of the teacher's logits, expected 7",
       in_parts([](auto&) {}, {2, 3, 7})},
      {"numbers has shape [3, 6]", in_parts(whole, {3, 6})},
      {"columns [1, 8) of a vocabulary of 7",
       [&] {
         Tensor numbers = make({3, 7});
         distillation_part(s, changed(whole), {.first = 1, .vocabulary = 7}, numbers);
       }},
      {"distillation_part: numbers has shape [2, 3, 7]",
       [&] {
         Tensor numbers = make({2, 3, 7});
         distillation_part(s, changed(whole), {.first = 1, .vocabulary = 9}, numbers);
       }},
  });
}

TEST_CASE("losses of hidden states refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const HiddenLossArgs right{.student = make({3, 4}),
                             .teacher = make({3, 4}, DType::kF16),
                             .targets = make({3}, DType::kI32),
                             .losses = make({3}),
                             .dstudent = make({3, 4})};
  CHECK_NOTHROW(hidden_loss(s, right));
  const auto with = [&](const std::function<void(HiddenLossArgs&)>& change) {
    return [&, change] {
      HiddenLossArgs args = right;
      change(args);
      hidden_loss(s, args);
    };
  };
  check_refused({
      {"student is no matrix [N, C]", with([&](auto& a) { a.student = make({12}); })},
      {"student is int32", with([&](auto& a) {
         a.student = make({3, 4}, DType::kI32);
       })},
      {"teacher has shape [3, 5]", with([&](auto& a) {
         a.teacher = make({3, 5});
       })},
      {"teacher is int32", with([&](auto& a) {
         a.teacher = make({3, 4}, DType::kI32);
       })},
      {"targets is fp32, expected int32", with([&](auto& a) { a.targets = make({3}); })},
      {"row_weights is bf16", with([&](auto& a) { a.row_weights = make({3}, DType::kBF16); })},
      {"losses has shape [2]", with([&](auto& a) { a.losses = make({2}); })},
      {"a weight of -1, expected 0 or more", with([](auto& a) { a.weight = -1; })},
      {"dstudent is bf16, expected fp32", with([&](auto& a) {
         a.dstudent = make({3, 4}, DType::kBF16);
       })},
  });
}

}  // namespace
}  // namespace ds::kernels
