// Losses of hidden states and their gradients, against the formula in fp64 and torch's numbers.
#include "kernels/value_loss/hidden_loss.h"

#include <limits>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr int64_t kRows = 6;

HiddenLossArgs random_args(int64_t width, DType dtype, DType teacher, Stream& stream) {
  return {.student = random_tensor({kRows, width}, dtype, 1, stream),
          .teacher = random_tensor({kRows, width}, teacher, 2, stream),
          .targets = tokens_of({3, -1, 0, -100, 7, 1}, stream),
          .losses = Tensor::empty({kRows}, DType::kF32, stream),
          .grad_scale = 0.5F,
          .dstudent = Tensor::empty({kRows, width}, dtype, stream)};
}

double weight_of(const HiddenLossArgs& args, size_t row) {
  static const std::vector<bool> counts{true, false, true, false, true, true};
  const double weight = args.row_weights.defined() ? values_of(args.row_weights)[row] : 1;
  return counts[row] ? double{args.weight} * weight : 0;
}

Values losses_of(const HiddenLossArgs& args, const Values& student) {
  const Values teacher = values_of(args.teacher);
  const size_t width = student.size() / to_size(kRows);
  Values losses(to_size(kRows));
  for (size_t row = 0; row < losses.size(); ++row) {
    const double weight = weight_of(args, row);
    if (weight == 0) continue;
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      losses[row] += weight * (student[i] - teacher[i]) * (student[i] - teacher[i]);
    }
    losses[row] /= static_cast<double>(width);
  }
  return losses;
}

void check_run(Stream& stream, HiddenLossArgs args, double gradients_times = 1) {
  const Values student = values_of(args.student);
  const Values expected = losses_of(args, student);
  const double scale = double{args.grad_scale} * gradients_times;
  const Values slopes = numeric_gradient(
      [&](const Values& v) { return scale * dot(losses_of(args, v), Values(to_size(kRows), 1.0)); },
      student);
  hidden_loss(stream, args);
  REQUIRE(error_of(args.losses, expected) < 1e-6);
  REQUIRE(values_of(args.losses)[1] == 0);
  REQUIRE(error_of(args.dstudent, slopes) < tolerance_of(args.student.dtype()));
  const Values losses = values_of(args.losses);
  args.dstudent = {};
  args.losses = Tensor::empty({kRows}, DType::kF32, stream);
  hidden_loss(stream, args);
  REQUIRE(values_of(args.losses) == losses);
  REQUIRE(values_of(args.student) == student);
}

TEST_CASE("losses of hidden states are what their formula says, and gradients numeric ones",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const DType teacher : float_dtypes()) {
      for (const int64_t width : {1, 3, 8, 33, 64, 200}) {
        CAPTURE(name_of(dtype), name_of(teacher), width);
        check_run(s.stream, random_args(width, dtype, teacher, s.stream));
      }
    }
  }
}

TEST_CASE("rows of hidden states weigh what they and all together weigh", "[kernels][device]") {
  TestStream s;
  for (const int64_t width : {5, 64}) {
    HiddenLossArgs args = random_args(width, DType::kF32, DType::kBF16, s.stream);
    args.row_weights = tensor_of({0.5, 1, 0, 2, 3, 1}, {kRows}, DType::kF32, s.stream);
    args.weight = 0.25F;
    check_run(s.stream, args);
    args.weight = 0;
    hidden_loss(s.stream, args);
    CHECK(values_of(args.losses) == Values(to_size(kRows), 0.0));
    CHECK(values_of(args.dstudent) == Values(to_size(kRows * width), 0.0));
  }
}

TEST_CASE("gradients of hidden states are multiplied by the loss scale", "[kernels][device]") {
  TestStream s;
  const Tensor scale = testing::upload(std::vector<double>{64}, {1}, s.stream);
  HiddenLossArgs args = random_args(7, DType::kF32, DType::kF32, s.stream);
  args.loss_scale = static_cast<const double*>(scale.address());
  check_run(s.stream, args, 64);
}

TEST_CASE("hidden states of a row that is ignored are not looked at", "[kernels][device]") {
  TestStream s;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const int64_t width : {2, 8}) {
    Values student(to_size(kRows * width), 1.0);
    for (size_t i = to_size(width); i < to_size(2 * width); ++i) student[i] = infinity;
    HiddenLossArgs args = random_args(width, DType::kF32, DType::kF32, s.stream);
    args.student = tensor_of(student, {kRows, width}, DType::kF32, s.stream);
    hidden_loss(s.stream, args);
    CHECK(values_of(args.losses)[1] == 0);
    const Values slopes = values_of(args.dstudent);
    for (size_t i = to_size(width); i < to_size(2 * width); ++i) CHECK(slopes[i] == 0);
  }
}

TEST_CASE("gradients of hidden states may lie over the student's, wherever these begin",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t width : {7, 64}) {
      CAPTURE(name_of(dtype), width);
      HiddenLossArgs apart = random_args(width, dtype, dtype, s.stream);
      const Tensor room = Tensor::zeros({kRows * width + 1}, dtype, s.stream);
      Values all{0};
      for (const double v : values_of(apart.student)) all.push_back(v);
      HiddenLossArgs over = apart;
      over.student = tensor_of(all, {kRows * width + 1}, dtype, s.stream)
                         .narrow(1, kRows * width)
                         .reshape({kRows, width});
      over.dstudent = over.student;
      over.losses = Tensor::empty({kRows}, DType::kF32, s.stream);
      hidden_loss(s.stream, apart);
      hidden_loss(s.stream, over);
      CHECK(error_of(over.losses, values_of(apart.losses)) < 1e-6);
      CHECK(same_bits(over.dstudent, apart.dstudent));
    }
  }
}

TEST_CASE("losses of hidden states have the same bits for any number of threads", "[kernels]") {
  const auto run = [](int threads) {
    TestStream s(threads);
    std::vector<int32_t> targets(100, 1);
    const HiddenLossArgs args{.student = random_tensor({100, 257}, DType::kBF16, 1, s.stream),
                              .teacher = random_tensor({100, 257}, DType::kF32, 2, s.stream),
                              .targets = tokens_of(targets, s.stream),
                              .losses = Tensor::empty({100}, DType::kF32, s.stream),
                              .dstudent = Tensor::empty({100, 257}, DType::kBF16, s.stream)};
    hidden_loss(s.stream, args);
    return std::pair{bytes_of(args.losses), bytes_of(args.dstudent)};
  };
  const auto one = run(1);
  CHECK(run(2) == one);
  CHECK(run(4) == one);
}

// torch 2.15: mse_loss(s, t), and its gradient by autograd.
TEST_CASE("losses of hidden states have torch's numbers", "[kernels][device]") {
  TestStream s;
  const HiddenLossArgs args{
      .student = tensor_of({1.5, -0.25, 0.75, 2.0}, {1, 4}, DType::kF32, s.stream),
      .teacher = tensor_of({0.5, 1.0, -1.5, 2.5}, {1, 4}, DType::kF32, s.stream),
      .targets = tokens_of({0}, s.stream),
      .losses = Tensor::empty({1}, DType::kF32, s.stream),
      .dstudent = Tensor::empty({1, 4}, DType::kF32, s.stream)};
  hidden_loss(s.stream, args);
  CHECK(values_of(args.losses) == Values{1.96875});
  CHECK(values_of(args.dstudent) == Values{0.5, -0.625, 1.125, -0.25});
}

}  // namespace
}  // namespace ds::kernels
