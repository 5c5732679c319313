// Softmax cross entropy of logits, and what a device tells of numbers that it cannot use.
#include "kernels/softmax/softmax.h"

#include <cmath>
#include <limits>

#include "core/device/device_flags.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/step/scalars.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr float kScale = 0.25F;

struct Expected {
  Values losses, gradients;
};

Expected expected_of(const Values& logits, const std::vector<int32_t>& targets,
                     int64_t vocabulary) {
  Expected e{.losses = Values(targets.size()), .gradients = softmax(logits, vocabulary)};
  for (size_t row = 0; row < targets.size(); ++row) {
    double* const p = &e.gradients[row * static_cast<size_t>(vocabulary)];
    if (targets[row] >= 0) {
      e.losses[row] = -std::log(p[targets[row]]);
      p[targets[row]] -= 1;
    }
    for (int64_t v = 0; v < vocabulary; ++v) p[v] *= targets[row] < 0 ? 0.0 : double{kScale};
  }
  return e;
}

// Every third row is ignored.
std::vector<int32_t> some_targets(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 3 == 2 ? -100
                                 : static_cast<int32_t>((i * 7 + vocabulary - 1) % vocabulary));
  }
  return targets;
}

SoftmaxCrossEntropyArgs args_of(const Tensor& logits, const std::vector<int32_t>& targets,
                                Stream& stream) {
  return {.logits = matrix(logits, logits.shape()[0], logits.shape()[1]),
          .targets = tokens_of(targets, stream),
          .losses = Tensor::empty({static_cast<int64_t>(targets.size())}, DType::kF32, stream),
          .grad_scale = kScale};
}

}  // namespace

TEST_CASE("gradients are multiplied by the loss scale that lies in memory, losses are not",
          "[kernels][device]") {
  TestStream s;
  const std::vector<int32_t> targets = some_targets(4, 33);
  Tensor logits = random_tensor({4, 33}, DType::kF16, 3, s.stream, 4.0);
  Tensor scaled = random_tensor({4, 33}, DType::kF16, 3, s.stream, 4.0);
  constexpr double kLossScale = 64;
  const Tensor scale = Tensor::empty({1}, DType::kF64, s.stream);
  s.stream.copy(&kLossScale, scale.address(), sizeof kLossScale);
  SoftmaxCrossEntropyArgs plain = args_of(logits, targets, s.stream);
  SoftmaxCrossEntropyArgs with_scale = args_of(scaled, targets, s.stream);
  plain.grad_scale *= static_cast<float>(kLossScale);
  with_scale.loss_scale = static_cast<const double*>(scale.address());
  for (SoftmaxCrossEntropyArgs* args : {&plain, &with_scale}) {
    args->gradients = DType::kF16;
    softmax_cross_entropy(s.stream, *args);
  }
  CHECK(values_of(scaled) == values_of(logits));
  CHECK(values_of(with_scale.losses) == values_of(plain.losses));
}

TEST_CASE("losses and gradients of logits match the reference", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    // Around a pack, a warp and a block of them, and rows that begin off its borders.
    for (const int64_t vocabulary : {1, 2, 7, 8, 31, 33, 257, 2049}) {
      CAPTURE(name_of(dtype), vocabulary);
      const int64_t rows = 4;
      const std::vector<int32_t> targets = some_targets(rows, vocabulary);
      Tensor logits = random_tensor({rows, vocabulary}, dtype, 3, s.stream, 4.0);
      const Values before = values_of(logits);
      const Expected expected = expected_of(before, targets, vocabulary);
      SoftmaxCrossEntropyArgs args = args_of(logits, targets, s.stream);
      softmax_cross_entropy(s.stream, args);
      REQUIRE(error_of(args.losses, expected.losses) < 3e-6);
      REQUIRE(values_of(args.losses)[2] == 0);
      REQUIRE(values_of(logits) == before);
      const Values losses = values_of(args.losses);
      args.gradients = dtype;
      softmax_cross_entropy(s.stream, args);
      REQUIRE(values_of(args.losses) == losses);
      REQUIRE(error_of(logits, expected.gradients) < tolerance_of(dtype));
    }
  }
}

TEST_CASE("a soft cap is c tanh(x / c)", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 7, 16, 33, 5000}) {
      for (const float c : {0.5F, 30.0F}) {
        CAPTURE(name_of(dtype), n, c);
        Tensor x = random_tensor({n}, dtype, 3, s.stream, 20.0);
        Values expected = values_of(x);
        for (double& v : expected) v = double{c} * std::tanh(v / double{c});
        softcap(s.stream, c, x);
        REQUIRE(error_of(x, expected) < tolerance_of(dtype));
      }
    }
  }
  Tensor x = random_tensor({4}, DType::kF32, 3, s.stream);
  CHECK_THROWS_WITH(softcap(s.stream, 0, x), Catch::Contains("softcap: a cap of 0"));
}

TEST_CASE("gradients of capped logits are those of what was capped", "[kernels][device]") {
  TestStream s;
  constexpr float kCap = 6;
  for (const auto& [dtype, gradients] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF32, DType::kBF16},
        std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kF16, DType::kF16}}) {
    for (const int64_t vocabulary : {2, 33, 4099}) {
      CAPTURE(name_of(dtype), name_of(gradients), vocabulary);
      const std::vector<int32_t> targets = some_targets(3, vocabulary);
      Tensor logits = random_tensor({3, vocabulary}, dtype, 3, s.stream, 5.0);
      softcap(s.stream, kCap, logits);
      const Values capped = values_of(logits);
      Expected expected = expected_of(capped, targets, vocabulary);
      for (size_t i = 0; i < capped.size(); ++i) {
        expected.gradients[i] *= 1 - capped[i] * capped[i] / (kCap * kCap);
      }
      SoftmaxCrossEntropyArgs args = args_of(logits, targets, s.stream);
      args.softcap = kCap;
      args.gradients = gradients;
      softmax_cross_entropy(s.stream, args);
      REQUIRE(error_of(args.losses, expected.losses) < 3e-6);
      const Values all = values_of(logits.reinterpret(gradients));
      const auto stride = static_cast<int64_t>(all.size()) / 3;
      Values packed;
      for (int64_t row = 0; row < 3; ++row) {
        const auto begin = all.begin() + row * stride;
        packed.insert(packed.end(), begin, begin + vocabulary);
      }
      REQUIRE(error_of(tensor_of(packed, {3, vocabulary}, gradients, s.stream),
                       expected.gradients) < tolerance_of(gradients));
    }
  }
}

TEST_CASE("gradients of 16 bits lie at the beginning of their rows of fp32 logits",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int64_t vocabulary : {5, 64, 4099}) {
      CAPTURE(name_of(dtype), vocabulary);
      const std::vector<int32_t> targets = some_targets(3, vocabulary);
      Tensor logits = random_tensor({3, vocabulary}, DType::kF32, 3, s.stream, 4.0);
      const Expected expected = expected_of(values_of(logits), targets, vocabulary);
      SoftmaxCrossEntropyArgs args = args_of(logits, targets, s.stream);
      args.gradients = dtype;
      softmax_cross_entropy(s.stream, args);
      const Values all = values_of(logits.reinterpret(dtype));
      Values gradients;
      for (int64_t row = 0; row < 3; ++row) {
        const auto begin = all.begin() + 2 * row * vocabulary;
        gradients.insert(gradients.end(), begin, begin + vocabulary);
      }
      const Tensor packed = tensor_of(gradients, {3, vocabulary}, dtype, s.stream);
      REQUIRE(error_of(packed, expected.gradients) < tolerance_of(dtype));
    }
  }
}

TEST_CASE("rows of logits may lie apart, and what is between them stays", "[kernels][device]") {
  TestStream s;
  constexpr int64_t kRows = 4, kStride = 320;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t vocabulary : {257, 319}) {
      for (const int64_t offset : {0, 3}) {
        CAPTURE(name_of(dtype), vocabulary, offset);
        const std::vector<int32_t> targets = some_targets(kRows, vocabulary);
        const Tensor room = random_tensor({offset + kRows * kStride}, dtype, 5, s.stream, 4.0);
        const Values before = values_of(room);
        const Tensor together = Tensor::empty({kRows, vocabulary}, dtype, s.stream);
        const auto of_rows = [&](const Values& all) {
          Values rows;
          for (int64_t row = 0; row < kRows; ++row) {
            const auto begin = all.begin() + offset + row * kStride;
            rows.insert(rows.end(), begin, begin + vocabulary);
          }
          return rows;
        };
        const Expected expected = expected_of(of_rows(before), targets, vocabulary);
        SoftmaxCrossEntropyArgs args = args_of(together, targets, s.stream);
        args.logits = {room, kRows, vocabulary, kStride, offset};
        softmax_cross_entropy(s.stream, args);
        REQUIRE(error_of(args.losses, expected.losses) < 3e-6);
        REQUIRE(values_of(room) == before);
        args.gradients = dtype;
        softmax_cross_entropy(s.stream, args);
        Values after = values_of(room);
        const Tensor gradients = tensor_of(of_rows(after), {kRows, vocabulary}, dtype, s.stream);
        REQUIRE(error_of(gradients, expected.gradients) < tolerance_of(dtype));
        for (int64_t row = 0; row < kRows; ++row) {
          const int64_t begin = offset + row * kStride;
          std::copy_n(before.begin() + begin, vocabulary, after.begin() + begin);
        }
        REQUIRE(after == before);
      }
    }
  }
}

TEST_CASE("logits may begin anywhere, and be too large for their exponentials",
          "[kernels][device]") {
  TestStream s;
  const int64_t vocabulary = 75;
  const std::vector<int32_t> targets = some_targets(2, vocabulary);
  for (const DType dtype : float_dtypes()) {
    CAPTURE(name_of(dtype));
    const Tensor room = random_tensor({1 + 2 * vocabulary}, dtype, 5, s.stream, 100.0);
    Tensor logits = room.narrow(1, 2 * vocabulary).reshape({2, vocabulary});
    const Values first = values_of(room.narrow(0, 1));
    const Expected expected = expected_of(values_of(logits), targets, vocabulary);
    SoftmaxCrossEntropyArgs args = args_of(logits, targets, s.stream);
    args.gradients = dtype;
    softmax_cross_entropy(s.stream, args);
    REQUIRE(error_of(args.losses, expected.losses) < 3e-6);
    REQUIRE(error_of(logits, expected.gradients) < tolerance_of(dtype));
    REQUIRE(values_of(room.narrow(0, 1)) == first);
  }
}

TEST_CASE("no rows, and rows that are all ignored, have no loss", "[kernels][device]") {
  TestStream s;
  SoftmaxCrossEntropyArgs none =
      args_of(Tensor::zeros({0, 5}, DType::kF32, s.stream), {}, s.stream);
  none.gradients = DType::kF32;
  CHECK_NOTHROW(softmax_cross_entropy(s.stream, none));
  Tensor logits = random_tensor({2, 5}, DType::kF32, 5, s.stream);
  SoftmaxCrossEntropyArgs ignored = args_of(logits, {-1, -100}, s.stream);
  ignored.gradients = DType::kF32;
  softmax_cross_entropy(s.stream, ignored);
  CHECK(values_of(ignored.losses) == Values(2, 0.0));
  CHECK(values_of(logits) == Values(10, 0.0));
}

TEST_CASE("a loss refuses operands that do not fit", "[kernels][device]") {
  TestStream s;
  const Tensor logits = Tensor::zeros({2, 3}, DType::kBF16, s.stream);
  SoftmaxCrossEntropyArgs apart = args_of(logits, {0, 1}, s.stream);
  apart.logits.row_stride = 4;
  CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, apart),
                    Catch::Contains("logits ends at element 7 of a tensor of 6"));
  apart.logits.row_stride = 2;
  CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, apart),
                    Catch::Contains("logits is 2 x 3 with row stride 2"));
  SoftmaxCrossEntropyArgs args = args_of(logits, {0, 1, 2}, s.stream);
  CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, args), Catch::Contains("targets"));
  args = args_of(logits, {0, 1}, s.stream);
  args.gradients = DType::kF32;
  CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, args),
                    Catch::Contains("gradients of bf16 logits are fp32"));
  args.gradients = DType::kF16;
  CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, args),
                    Catch::Contains("gradients of bf16 logits are fp16"));
}

TEST_CASE("a target outside of the vocabulary is an error on the CPU, and told later by a device",
          "[kernels][device]") {
  TestStream s;
  const Values before(15, 1.0);
  Tensor logits = tensor_of(before, {3, 5}, DType::kF32, s.stream);
  SoftmaxCrossEntropyArgs args = args_of(logits, {4, 5, 0}, s.stream);
  args.gradients = DType::kF32;
  if (s.stream.device() == Device::cpu()) {
    CHECK_THROWS_WITH(softmax_cross_entropy(s.stream, args),
                      Catch::Contains("row 1 has target 5, expected < 5"));
    CHECK(values_of(logits) == before);
    return;
  }
  softmax_cross_entropy(s.stream, args);
  CHECK(std::isnan(values_of(args.losses)[1]));
  CHECK(values_of(args.losses)[0] == Approx(std::log(5.0)));
  for (const double v : values_of(logits.narrow(5, 5))) CHECK(std::isnan(v));
  DeviceFlags flags(s.stream);
  CHECK_THROWS_AS(flags.wait_and_check("evaluation"), DataError);
  CHECK_NOTHROW(flags.wait_and_check("evaluation"));  // it is told once
  softmax_cross_entropy(s.stream, args);
  CHECK_THROWS_WITH(flags.wait_and_check("evaluation"),
                    "evaluation: the device found a target outside of the vocabulary");
}

TEST_CASE("what a device has found goes with the step's outcome, and the next one is clean",
          "[kernels][device]") {
  TestStream s;
  if (s.stream.device() == Device::cpu()) return;  // where it throws
  StepScalars scalars(1, s.stream);
  Values sums(static_cast<size_t>(kStepSums));
  sums[0] = 1;
  sums[1] = 4;
  s.stream.copy(sums.data(), scalars.gathered().address(), scalars.gathered().bytes());
  const auto finished = [&] {
    finish_step(s.stream, scalars.gathered(), {}, scalars);
    return scalars.read_back();
  };
  CHECK(finished().found == 0);
  const Tensor table = tensor_of(Values(12, 2.0), {3, 4}, DType::kF32, s.stream);
  Tensor y = Tensor::empty({1, 4}, DType::kF32, s.stream);
  embedding_forward(s.stream, tokens_of({3}, s.stream), table, {}, 1, 0, y);
  Tensor dtable = Tensor::zeros({3, 4}, DType::kF32, s.stream);
  embedding_backward(s.stream, tokens_of({7, 1}, s.stream), y, Write::kOverwrite, dtable);
  const StepOutcome bad = finished();
  CHECK(bad.skip == 1);
  CHECK_THROWS_WITH(require_none_found("step 3", bad.found),
                    "step 3: the device found a token outside of the vocabulary, an order of "
                    "tokens that names a row outside of it");
  CHECK(finished().skip == 1);  // until the host has heard of it
  scalars.clear_skip();
  const StepOutcome good = finished();
  CHECK(good.skip == 0);
  CHECK(good.found == 0);
}

TEST_CASE("bits that nobody knows are told as they are", "[kernels]") {
  CHECK_NOTHROW(require_none_found("step 1", 0));
  CHECK_THROWS_WITH(require_none_found("step 1", 1U << 30),
                    Catch::Contains("flags 0x40000000, which nobody knows"));
}

}  // namespace ds::kernels
