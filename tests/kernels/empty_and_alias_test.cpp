// Tensors without elements, operands that are the same memory where headers allow it, and memory
// beside an operand that nobody may touch.
#include <functional>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/optimizer/update.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/distillation.h"
#include "kernels/softmax/softmax.h"
#include "kernels/value_loss/hidden_loss.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"
#include "tests/support/sums.h"

namespace ds::kernels {
namespace {

using namespace reference;

TEST_CASE("operations over nothing do nothing, and sums of nothing are 0", "[kernels]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    const Tensor x = Tensor::zeros({0}, dtype, s.stream);
    Tensor y = Tensor::zeros({0}, dtype, s.stream);
    CHECK_NOTHROW(fill(s.stream, y, 1));
    CHECK_NOTHROW(add(s.stream, x, x, y));
    CHECK_NOTHROW(accumulate(s.stream, x, y));
    CHECK_NOTHROW(scale(s.stream, 2, y));
    CHECK_NOTHROW(cast(s.stream, x, y));
    CHECK_NOTHROW(activation_forward(s.stream, Activation::kSilu, x, y));
    CHECK_NOTHROW(activation_backward(s.stream, Activation::kSilu, x, x, y));
    const testing::PlacedInputs inputs(Rng(1, "none"), 0, s.stream);
    CHECK_NOTHROW(dropout(s.stream, x, 0.5F, inputs.mask(), 1, y));
    CHECK(testing::sum_of(s.stream, x) == 0);
    CHECK(testing::squares_of(s.stream, x) == 0);
    CHECK(all_finite(s.stream, x));
  }
}

TEST_CASE("the column sums of no rows are 0, or what was there", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0, 5}, DType::kBF16, s.stream);
  Tensor y = tensor_of({1, 2, 3, 4, 5}, {5}, DType::kF32, s.stream);
  column_sum(s.stream, none, Write::kAccumulate, y);
  CHECK(values_of(y) == Values{1, 2, 3, 4, 5});
  column_sum(s.stream, none, Write::kOverwrite, y);
  CHECK(values_of(y) == Values(5, 0.0));
}

TEST_CASE("the gradient of an embedding of no tokens is 0, or what was there",
          "[kernels][device]") {
  TestStream s;
  const Tensor order = Tensor::zeros({2, 0}, DType::kI32, s.stream);
  const Tensor dy = Tensor::zeros({0, 3}, DType::kF32, s.stream);
  Tensor dtable = tensor_of(Values(12, 7.0), {4, 3}, DType::kF32, s.stream);
  embedding_backward(s.stream, order, dy, Write::kAccumulate, dtable);
  CHECK(values_of(dtable) == Values(12, 7.0));
  embedding_backward(s.stream, order, dy, Write::kOverwrite, dtable);
  CHECK(values_of(dtable) == Values(12, 0.0));
}

TEST_CASE("the weight gradients of a norm over no rows are 0", "[kernels]") {
  TestStream s;
  const Tensor x = Tensor::zeros({0, 5}, DType::kF32, s.stream);
  const Tensor gamma = tensor_of(Values(5, 1.0), {5}, DType::kF32, s.stream);
  const Tensor mean = Tensor::zeros({0}, DType::kF32, s.stream);
  Tensor dx = Tensor::zeros({0, 5}, DType::kF32, s.stream);
  LayerNormGrads grads{.dgamma = tensor_of(Values(5, 9.0), {5}, DType::kF32, s.stream),
                       .dbeta = tensor_of(Values(5, 9.0), {5}, DType::kF32, s.stream)};
  layer_norm_backward(s.stream, x, gamma, mean, mean, x, {}, dx, grads);
  CHECK(values_of(grads.dgamma) == Values(5, 0.0));
  CHECK(values_of(grads.dbeta) == Values(5, 0.0));
}

TEST_CASE("the loss of no rows has no gradient, or what was there", "[kernels][device]") {
  TestStream s;
  const auto run = [&](Write write) {
    LinearCrossEntropyArgs args{
        .x = Tensor::zeros({0, 4}, DType::kF32, s.stream),
        .weight = random_tensor({6, 4}, DType::kF32, 1, s.stream),
        .targets = Tensor::zeros({0}, DType::kI32, s.stream),
        .bias = random_tensor({6}, DType::kF32, 2, s.stream),
        .losses = Tensor::zeros({0}, DType::kF32, s.stream),
        .dx = Tensor::zeros({0, 4}, DType::kF32, s.stream),
        .dweight = tensor_of(Values(24, 3.0), {6, 4}, DType::kF32, s.stream),
        .write_dweight = write,
        .dbias = tensor_of(Values(6, 3.0), {6}, DType::kF32, s.stream),
        .write_dbias = write};
    linear_cross_entropy(s.stream, args);
    Values both = values_of(args.dweight);
    std::ranges::copy(values_of(args.dbias), std::back_inserter(both));
    return both;
  };
  CHECK(run(Write::kAccumulate) == Values(30, 3.0));
  CHECK(run(Write::kOverwrite) == Values(30, 0.0));
}

TEST_CASE("distillation of no rows does nothing, and of ignored ones writes zeros",
          "[kernels][device]") {
  TestStream s;
  for (const int64_t rows : {0, 2}) {
    const auto filled = [&](int64_t columns) {
      return tensor_of(Values(to_size(rows * columns), 3.0), {rows, columns}, DType::kF32,
                       s.stream);
    };
    const Tensor logits = filled(5), losses = filled(1), divergences = filled(1);
    const Tensor targets = tokens_of(std::vector<int32_t>(to_size(rows), -100), s.stream);
    const DistilledCrossEntropyArgs args{.student = {.logits = matrix(logits, rows, 5),
                                                     .targets = targets,
                                                     .losses = losses,
                                                     .gradients = DType::kF32},
                                         .teacher = matrix(filled(5), rows, 5),
                                         .divergences = divergences};
    Tensor numbers = filled(kNumbersOfDistilledPart);
    distillation_part(s.stream, args, {.first = 0, .vocabulary = 5}, numbers);
    distilled_cross_entropy_of_parts(s.stream, args, {.first = 0, .vocabulary = 5}, numbers);
    distilled_cross_entropy(s.stream, args);
    const Tensor dstudent = filled(5);
    hidden_loss(s.stream, {.student = filled(5),
                           .teacher = filled(5),
                           .targets = targets,
                           .losses = losses,
                           .dstudent = dstudent});
    CHECK(values_of(losses) == Values(to_size(rows), 0.0));
    CHECK(values_of(divergences) == Values(to_size(rows), 0.0));
    CHECK(values_of(logits) == Values(to_size(rows * 5), 0.0));
    CHECK(values_of(dstudent) == Values(to_size(rows * 5), 0.0));
  }
}

TEST_CASE("a product of no rows or no columns touches nothing", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    const Tensor a = random_tensor({3, 4}, dtype, 1, s.stream);
    const Tensor none = Tensor::zeros({0}, dtype, s.stream);
    Tensor c = tensor_of(Values(12, 5.0), {12}, dtype, s.stream);
    CHECK_NOTHROW(
        matmul(s.stream, {.a = {none, 0, 4, 4, 0}, .b = {a, 4, 3, 3, 0}, .c = {c, 0, 3, 3, 0}}));
    CHECK_NOTHROW(
        matmul(s.stream, {.a = {a, 3, 4, 4, 0}, .b = {none, 4, 0, 0, 0}, .c = {c, 3, 0, 4, 0}}));
    CHECK(values_of(c) == Values(12, 5.0));
  }
}

TEST_CASE("an optimizer step over an empty shard is a step", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0}, DType::kF32, s.stream);
  CHECK_NOTHROW(adam_update(s.stream,
                            {.master = none, .grad = none, .exp_avg = none, .exp_avg_sq = none},
                            testing::scalars_of(s.stream, {.lr = 1})));
}

TEST_CASE("operands that may be one memory give what separate ones give", "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {int64_t{1}, int64_t{37}, int64_t{9000}}) {
      CAPTURE(name_of(dtype), n);
      const Tensor x = random_tensor({n}, dtype, 1, s.stream);
      const Tensor dy = random_tensor({n}, dtype, 2, s.stream);
      Tensor apart = Tensor::empty({n}, dtype, s.stream);
      add(s.stream, x, dy, apart);
      Tensor one = random_tensor({n}, dtype, 1, s.stream);
      add(s.stream, one, dy, one);
      CHECK(same_bits(one, apart));
      add(s.stream, x, x, apart);
      one = random_tensor({n}, dtype, 1, s.stream);
      add(s.stream, one, one, one);
      CHECK(same_bits(one, apart));
      activation_backward(s.stream, Activation::kGeluTanh, x, dy, apart);
      one = random_tensor({n}, dtype, 2, s.stream);
      activation_backward(s.stream, Activation::kGeluTanh, x, one, one);
      CHECK(same_bits(one, apart));
      const testing::PlacedInputs inputs(Rng(4, "alias"), 17, s.stream);
      dropout(s.stream, x, 0.3F, inputs.mask(), 1, apart);
      one = random_tensor({n}, dtype, 1, s.stream);
      dropout(s.stream, one, 0.3F, inputs.mask(), 1, one);
      CHECK(same_bits(one, apart));
    }
  }
}

TEST_CASE("the gradient of a norm may overwrite the residual's gradient", "[kernels]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    const Tensor x = random_tensor({7, 33}, dtype, 1, s.stream);
    const Tensor gamma = random_tensor({33}, dtype, 2, s.stream);
    const Tensor dy = random_tensor({7, 33}, dtype, 3, s.stream);
    Tensor y = Tensor::empty({7, 33}, dtype, s.stream);
    Tensor inv = Tensor::empty({7}, DType::kF32, s.stream);
    rms_norm(s.stream, x, gamma, 1e-5F, y, inv);
    LayerNormGrads grads{.dgamma = Tensor::zeros({33}, DType::kF32, s.stream)};
    const Tensor residual = random_tensor({7, 33}, dtype, 4, s.stream);
    Tensor apart = Tensor::empty({7, 33}, dtype, s.stream);
    rms_norm_backward(s.stream, x, gamma, inv, dy, residual, apart, grads);
    Tensor one = random_tensor({7, 33}, dtype, 4, s.stream);
    rms_norm_backward(s.stream, x, gamma, inv, dy, one, one, grads);
    CHECK(same_bits(one, apart));
  }
}

TEST_CASE("an operation on a view leaves what lies beside it, at every length and place",
          "[kernels][device]") {
  TestStream s;
  const testing::PlacedInputs inputs(Rng(1, "v"), 0, s.stream);
  for (const DType dtype : float_dtypes()) {
    for (int64_t n = 0; n < 40; ++n) {
      for (const int64_t offset : {0, 1, 3}) {
        CAPTURE(name_of(dtype), n, offset);
        const Tensor x = random_tensor({n}, dtype, 1, s.stream);
        const auto untouched = [&](const std::function<void(Tensor&)>& run) {
          const Tensor whole = tensor_of(Values(48, 11.0), {48}, dtype, s.stream);
          Tensor view = whole.narrow(offset, n);
          run(view);
          const Values after = values_of(whole);
          for (int64_t i = 0; i < 48; ++i) {
            if (i >= offset && i < offset + n) continue;
            if (after[static_cast<size_t>(i)] != 11.0) return false;
          }
          return true;
        };
        REQUIRE(untouched([&](Tensor& y) { fill(s.stream, y, 2); }));
        REQUIRE(untouched([&](Tensor& y) { add(s.stream, x, x, y); }));
        REQUIRE(untouched([&](Tensor& y) { accumulate(s.stream, x, y); }));
        REQUIRE(untouched([&](Tensor& y) { scale(s.stream, 3, y); }));
        REQUIRE(untouched([&](Tensor& y) { cast(s.stream, x, y); }));
        REQUIRE(
            untouched([&](Tensor& y) { activation_forward(s.stream, Activation::kRelu, x, y); }));
        REQUIRE(untouched(
            [&](Tensor& y) { activation_backward(s.stream, Activation::kGeluExact, x, x, y); }));
        REQUIRE(untouched([&](Tensor& y) { dropout(s.stream, x, 0.5F, inputs.mask(), 1, y); }));
      }
    }
  }
}

}  // namespace
}  // namespace ds::kernels
