// Distillation of a teacher's logits, against its formulas in fp64 and against torch's numbers.
#include "kernels/softmax/distillation.h"

#include <cmath>
#include <limits>

#include "core/device/device_flags.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/softmax/softmax.h"
#include "tests/kernels/distillation/distilled_reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr int64_t kRows = 4;

Tensor copy_of(const Tensor& tensor, Stream& stream) {
  return tensor_of(values_of(tensor), tensor.shape(), tensor.dtype(), stream);
}

// The gradients that lie at the beginning of each row of logits.
Values gradients_of(const MatrixView& logits, DType dtype) {
  const Values all = values_of(logits.tensor.reinterpret(dtype));
  const auto stride = std::ssize(all) / logits.rows;
  Values out;
  for (int64_t row = 0; row < logits.rows; ++row) {
    const auto begin = all.begin() + row * stride;
    out.insert(out.end(), begin, begin + logits.columns);
  }
  return out;
}

struct Sizes {
  int64_t columns, teacher_columns;
};
DistilledCrossEntropyArgs random_args(const Sizes& sizes, DType dtype, DType teacher,
                                      const DistillationRule& rule, Stream& stream) {
  return distilled_args(random_tensor({kRows, sizes.columns}, dtype, 3, stream, 4.0),
                        random_tensor({kRows, sizes.teacher_columns}, teacher, 4, stream, 4.0),
                        distilled_targets(kRows, sizes.columns), rule, stream);
}

// Losses alone, which leave the logits as they are, and gradients with the same losses.
void check_run(Stream& stream, DistilledCrossEntropyArgs args, DType gradients) {
  const std::vector<int32_t> targets = distilled_targets(kRows, args.student.logits.columns);
  const DistilledRows rows = rows_of(args, targets);
  const Distilled expected = distilled(rows, args.rule);
  distilled_cross_entropy(stream, args);
  REQUIRE(error_of(args.student.losses, expected.losses) < 5e-6);
  REQUIRE(error_of(args.divergences, expected.divergences) < 5e-6);
  REQUIRE(values_of(args.student.losses)[2] == 0);
  REQUIRE(values_of(args.divergences)[2] == 0);
  REQUIRE(values_of(args.student.logits.tensor) == rows.student);
  const Values losses = values_of(args.student.losses), divergences = values_of(args.divergences);
  args.student.gradients = gradients;
  distilled_cross_entropy(stream, args);
  REQUIRE(values_of(args.student.losses) == losses);
  REQUIRE(values_of(args.divergences) == divergences);
  REQUIRE(values_of(args.teacher.tensor) == rows.teacher);
  const Tensor got = tensor_of(gradients_of(args.student.logits, gradients), {kRows, rows.columns},
                               gradients, stream);
  REQUIRE(error_of(got, expected.gradients) < tolerance_of(gradients));
}

TEST_CASE("losses, divergences and gradients of distillation match the formulas",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const DType teacher : float_dtypes()) {
      for (const int64_t columns : {1, 2, 63, 64, 65, 257, 1000}) {
        const int64_t teacher_columns = columns % 2 == 0 ? columns : (columns + 1) / 2;
        for (const double temperature : {0.5, 1.0, 4.0}) {
          CAPTURE(name_of(dtype), name_of(teacher), columns, temperature);
          const DistillationRule rule{.alpha = 0.75, .beta = 0.5, .temperature = temperature};
          check_run(s.stream,
                    random_args({columns, teacher_columns}, dtype, teacher, rule, s.stream), dtype);
        }
      }
    }
  }
}

TEST_CASE("a teacher may know fewer words, down to one", "[kernels][device]") {
  TestStream s;
  for (const int64_t columns : {2, 65, 300}) {
    for (const int64_t teacher_columns : {int64_t{1}, columns / 2, columns - 1, columns}) {
      CAPTURE(columns, teacher_columns);
      check_run(s.stream,
                random_args({columns, teacher_columns}, DType::kF32, DType::kBF16,
                            {.alpha = 0.1, .beta = 0.9, .temperature = 2}, s.stream),
                DType::kF32);
    }
  }
}

TEST_CASE("distilled gradients of 16 bits lie at the beginning of their rows of fp32 logits",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int64_t columns : {5, 64, 4099}) {
      CAPTURE(name_of(dtype), columns);
      check_run(s.stream,
                random_args({columns, columns}, DType::kF32, dtype,
                            {.alpha = 0.5, .beta = 0.5, .temperature = 2}, s.stream),
                dtype);
    }
  }
}

TEST_CASE("either half of a distilled loss may be left out", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const double alpha : {0.0, 1.0}) {
      CAPTURE(name_of(dtype), alpha);
      check_run(s.stream,
                random_args({65, 65}, dtype, dtype,
                            {.alpha = alpha, .beta = 1 - alpha, .temperature = 2}, s.stream),
                dtype);
    }
  }
}

TEST_CASE("distillation that nothing is learnt by has the bits of cross entropy",
          "[kernels][device]") {
  TestStream s;
  for (const auto& [dtype, gradients] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF32, DType::kBF16},
        std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kF16, DType::kF16}}) {
    for (const int64_t columns : {1, 33, 4099}) {
      for (const double temperature : {1.0, 3.0}) {
        for (const float cap : {0.0F, 6.0F}) {
          CAPTURE(name_of(dtype), name_of(gradients), columns, temperature, cap);
          DistilledCrossEntropyArgs args =
              random_args({columns, columns}, dtype, dtype,
                          {.alpha = 1, .beta = 0, .temperature = temperature}, s.stream);
          if (cap > 0) softcap(s.stream, cap, args.student.logits.tensor);
          args.student.softcap = cap;
          args.student.gradients = gradients;
          args.student.row_weights = tensor_of({1, 0.5, 2, 0}, {kRows}, DType::kF32, s.stream);
          SoftmaxCrossEntropyArgs plain = args.student;
          plain.logits.tensor = copy_of(args.student.logits.tensor, s.stream);
          plain.losses = Tensor::empty({kRows}, DType::kF32, s.stream);
          softmax_cross_entropy(s.stream, plain);
          distilled_cross_entropy(s.stream, args);
          CHECK(same_bits(args.student.losses, plain.losses));
          CHECK(gradients_of(args.student.logits, gradients) ==
                gradients_of(plain.logits, gradients));
        }
      }
    }
  }
}

TEST_CASE("who says what the teacher says diverges by nothing, exactly", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const double spread : {4.0, 1e4}) {
      for (const double temperature : {0.5, 1.0, 4.0}) {
        for (const int64_t columns : {1, 65, 1000}) {
          CAPTURE(name_of(dtype), spread, temperature, columns);
          const std::vector<int32_t> targets = distilled_targets(kRows, columns);
          const Tensor logits = random_tensor({kRows, columns}, dtype, 3, s.stream, spread);
          DistilledCrossEntropyArgs args =
              distilled_args(logits, copy_of(logits, s.stream), targets,
                             {.alpha = 0.5, .beta = 0.5, .temperature = temperature}, s.stream);
          SoftmaxCrossEntropyArgs half = args.student;
          half.logits.tensor = copy_of(logits, s.stream);
          half.losses = Tensor::empty({kRows}, DType::kF32, s.stream);
          half.grad_scale *= 0.5F;
          args.student.gradients = half.gradients = dtype;
          softmax_cross_entropy(s.stream, half);
          distilled_cross_entropy(s.stream, args);
          CHECK(values_of(args.divergences) == Values(kRows, 0.0));
          CHECK(values_of(logits) == values_of(half.logits.tensor));
          Values losses = values_of(half.losses);
          for (double& loss : losses) loss *= 0.5;
          CHECK(values_of(args.student.losses) == losses);
        }
      }
    }
  }
}

TEST_CASE("logits that are too large for their exponentials are distilled all the same",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const double temperature : {0.5, 1.0, 4.0}) {
      CAPTURE(name_of(dtype), temperature);
      const std::vector<int32_t> targets{0, 3, -100, 1};
      const Values student{1e4,  -1e4, 0,   9999, 5, 1e4, 1e4, -1e4, 1e4, 1e4,
                           -1e4, -1e4, 0.5, 2,    3, 4,   5,   6,    7,   8};
      const Values teacher{-1e4, 1e4, 0,    9998, 7, 1e4, 1e4, -1e4, 1e4, 1e4,
                           0,    0,   -1e4, 1e4,  3, 1e4, 7,   -5,   1e4, -1e4};
      DistilledCrossEntropyArgs args =
          distilled_args(tensor_of(student, {kRows, 5}, dtype, s.stream),
                         tensor_of(teacher, {kRows, 5}, dtype, s.stream), targets,
                         {.alpha = 0.5, .beta = 2, .temperature = temperature}, s.stream);
      args.student.gradients = dtype;
      const Distilled expected = distilled(rows_of(args, targets), args.rule);
      distilled_cross_entropy(s.stream, args);
      CHECK(error_of(args.student.losses, expected.losses) < 1e-6);
      CHECK(error_of(args.divergences, expected.divergences) < 1e-6);
      CHECK(values_of(args.divergences)[1] == 0);
      CHECK(error_of(args.student.logits.tensor, expected.gradients) < tolerance_of(dtype));
    }
  }
}

TEST_CASE("words that student and teacher exclude both add nothing", "[kernels][device]") {
  TestStream s;
  const double out = -std::numeric_limits<double>::infinity();
  const auto run = [&](const Values& student, const Values& teacher) {
    const int64_t columns = std::ssize(student);
    DistilledCrossEntropyArgs args =
        distilled_args(tensor_of(student, {1, columns}, DType::kF32, s.stream),
                       tensor_of(teacher, {1, columns}, DType::kF32, s.stream), {1},
                       {.alpha = 0.5, .beta = 0.5, .temperature = 2}, s.stream);
    args.student.gradients = DType::kF32;
    distilled_cross_entropy(s.stream, args);
    return std::pair{values_of(args.student.losses)[0], values_of(args.student.logits.tensor)};
  };
  const auto [loss, gradients] = run({1, 2, 0.5}, {0.5, 1, 3});
  const auto [same_loss, padded] = run({1, 2, 0.5, out}, {0.5, 1, 3, out});
  CHECK(same_loss == Approx(loss).epsilon(1e-6));
  CHECK(padded[0] == Approx(gradients[0]).epsilon(1e-5));
  CHECK(padded[3] == 0);
}

TEST_CASE("distilled losses, divergences and gradients are multiplied by the weights of rows",
          "[kernels][device]") {
  TestStream s;
  const double infinity = std::numeric_limits<double>::infinity();
  const DistillationRule rule{.alpha = 0.5, .beta = 2, .temperature = 2};
  const Values student{1, 2, 3, infinity, 1, 0, 0.5, 0, -1, infinity, 4, 1};
  const Values teacher{2, 2, 1, 0, infinity, 0, 1, 0, 2, 3, 4, infinity};
  const std::vector<int32_t> targets{2, 1, 0, -1};
  DistilledCrossEntropyArgs args = distilled_args(
      tensor_of(student, {kRows, 3}, DType::kF32, s.stream),
      tensor_of(teacher, {kRows, 3}, DType::kF32, s.stream), targets, rule, s.stream);
  args.student.row_weights = tensor_of({2, 0, 0.5, 1}, {kRows}, DType::kF32, s.stream);
  const Distilled expected = distilled(rows_of(args, targets), rule);
  REQUIRE(expected.losses[0] > 0.1);
  for (const bool backward : {false, true}) {
    if (backward) args.student.gradients = DType::kF32;
    distilled_cross_entropy(s.stream, args);
    CHECK(error_of(args.student.losses, expected.losses) < 1e-6);
    CHECK(error_of(args.divergences, expected.divergences) < 1e-6);
  }
  CHECK(error_of(args.student.logits.tensor, expected.gradients) < 1e-6);
}

TEST_CASE("distilled gradients of capped logits are those of what was capped, and numeric ones",
          "[kernels][device]") {
  TestStream s;
  constexpr int64_t kColumns = 9, kTeacherColumns = 7;
  constexpr double kCap = 3;
  const std::vector<int32_t> targets = distilled_targets(kRows, kColumns);
  const DistillationRule rule{.alpha = 0.3, .beta = 0.7, .temperature = 2};
  for (const bool is_capped : {false, true}) {
    CAPTURE(is_capped);
    const Tensor given = random_tensor({kRows, kColumns}, DType::kF32, 3, s.stream, 2.0);
    Tensor logits = copy_of(given, s.stream);
    if (is_capped) softcap(s.stream, static_cast<float>(kCap), logits);
    DistilledCrossEntropyArgs args = distilled_args(
        logits, random_tensor({kRows, kTeacherColumns}, DType::kF32, 4, s.stream, 2.0), targets,
        rule, s.stream);
    args.student.softcap = is_capped ? static_cast<float>(kCap) : 0.0F;
    args.student.gradients = DType::kF32;
    DistilledRows rows = rows_of(args, targets);
    distilled_cross_entropy(s.stream, args);
    const auto total = [&](const Values& before) {
      rows.student = before;
      for (double& z : rows.student) z = is_capped ? kCap * std::tanh(z / kCap) : z;
      const Distilled now = distilled(rows, rule);
      return 0.25 * dot(now.losses, Values(now.losses.size(), 1.0));
    };
    CHECK(error_of(logits, numeric_gradient(total, values_of(given))) < 1e-5);
  }
}

TEST_CASE(
    "distilled gradients are multiplied by the loss scale that lies in memory, losses are not",
    "[kernels][device]") {
  TestStream s;
  const Tensor scale = testing::upload(std::vector<double>{64}, {1}, s.stream);
  const DistillationRule rule{.temperature = 2};
  DistilledCrossEntropyArgs plain = random_args({33, 33}, DType::kF16, DType::kF16, rule, s.stream);
  DistilledCrossEntropyArgs scaled =
      random_args({33, 33}, DType::kF16, DType::kF16, rule, s.stream);
  plain.student.grad_scale *= 64;
  scaled.student.loss_scale = static_cast<const double*>(scale.address());
  plain.student.gradients = scaled.student.gradients = DType::kF16;
  distilled_cross_entropy(s.stream, plain);
  distilled_cross_entropy(s.stream, scaled);
  CHECK(same_bits(scaled.student.logits.tensor, plain.student.logits.tensor));
  CHECK(same_bits(scaled.student.losses, plain.student.losses));
  CHECK(same_bits(scaled.divergences, plain.divergences));
}

TEST_CASE("distillation has the same bits for any number of threads", "[kernels]") {
  const auto run = [](int threads) {
    TestStream s(threads);
    DistilledCrossEntropyArgs args =
        distilled_args(random_tensor({37, 257}, DType::kF32, 3, s.stream, 4.0),
                       random_tensor({37, 200}, DType::kBF16, 4, s.stream, 4.0),
                       distilled_targets(37, 257), {.temperature = 2}, s.stream);
    args.student.gradients = DType::kBF16;
    distilled_cross_entropy(s.stream, args);
    return std::vector{bytes_of(args.student.losses), bytes_of(args.divergences),
                       bytes_of(args.student.logits.tensor)};
  };
  const auto one = run(1);
  CHECK(run(2) == one);
  CHECK(run(4) == one);
}

TEST_CASE("who nearly says what the teacher says never gains by more than rounding",
          "[kernels][device]") {
  TestStream s;
  for (const double apart : {1e-6, 1e-4, 1e-2}) {
    CAPTURE(apart);
    Values student = values_of(random_tensor({kRows, 1000}, DType::kF32, 3, s.stream, 4.0));
    const Tensor teacher = tensor_of(student, {kRows, 1000}, DType::kF32, s.stream);
    const Values noise = values_of(random_tensor({kRows, 1000}, DType::kF32, 4, s.stream, apart));
    for (size_t i = 0; i < student.size(); ++i) student[i] += noise[i];
    const std::vector<int32_t> targets = distilled_targets(kRows, 1000);
    const DistilledCrossEntropyArgs args =
        distilled_args(tensor_of(student, {kRows, 1000}, DType::kF32, s.stream), teacher, targets,
                       {.alpha = 0, .beta = 1}, s.stream);
    const Distilled expected = distilled(rows_of(args, targets), args.rule);
    distilled_cross_entropy(s.stream, args);
    const Values got = values_of(args.divergences);
    for (size_t row = 0; row < got.size(); ++row) {
      // Logits reach 16, where fp32 has a step of 2e-6: CPUs that add up in another order are up to
      // 3.2e-7 away.
      CHECK(got[row] > -1e-6);
      CHECK(std::abs(got[row] - expected.divergences[row]) < 1e-6);
    }
  }
}

// torch 2.15, in float64: alpha cross_entropy(z, target) + beta KL with KL =
// kl_div(log_softmax(z / T), softmax(t / T), reduction="none").sum(-1) T T, where t is -inf behind
// its last word; its gradient by autograd.
TEST_CASE("distillation has torch's numbers", "[kernels][device]") {
  TestStream s;
  struct Golden {
    Values student, teacher;
    DistillationRule rule;
    int32_t target;
    double loss, divergence;
    Values gradient;
  };
  const std::vector<Golden> cases{
      {{1.5, -0.25, 0.75, 2.0},
       {0.5, 1.0, -1.5, 2.5},
       {.alpha = 0.5, .beta = 0.5, .temperature = 1},
       2,
       1.1262493648525957,
       0.31013451501569733,
       {0.254353703487, -0.028292384578, -0.363287012178, 0.137225693269}},
      {{1.5, -0.25, 0.75, 2.0},
       {0.5, 1.0, -1.5, 2.5},
       {.alpha = 0.25, .beta = 0.75, .temperature = 2},
       0,
       0.7338102462166234,
       0.5809589233923331,
       {-0.010728193744, -0.160917145757, 0.237359054567, -0.065713715066}},
      {{1.5, -0.25, 0.75, 2.0},
       {0.5, 1.0, -1.5},
       {.alpha = 0, .beta = 1, .temperature = 4},
       3,
       7.019752610529586,
       7.019752610529586,
       {-0.351324112741, -0.938593976679, 0.033595392717, 1.256322696703}},
      {{-3.0, 4.0, 0.5, 1.0},
       {6.0, -2.0, 0.0, 1.0},
       {.alpha = 1, .beta = 2, .temperature = 0.5},
       1,
       7.07898903852441,
       3.50059920146711,
       {-0.999103882285, 0.921777986411, 0.028840009823, 0.048485886051}}};
  for (const Golden& golden : cases) {
    CAPTURE(golden.target);
    DistilledCrossEntropyArgs args = distilled_args(
        tensor_of(golden.student, {1, std::ssize(golden.student)}, DType::kF32, s.stream),
        tensor_of(golden.teacher, {1, std::ssize(golden.teacher)}, DType::kF32, s.stream),
        {golden.target}, golden.rule, s.stream);
    args.student.grad_scale = 1;
    args.student.gradients = DType::kF32;
    distilled_cross_entropy(s.stream, args);
    CHECK(values_of(args.student.losses)[0] == Approx(golden.loss).epsilon(1e-6));
    CHECK(values_of(args.divergences)[0] == Approx(golden.divergence).epsilon(1e-6));
    CHECK(error_of(args.student.logits.tensor, golden.gradient) < 1e-6);
  }
}

TEST_CASE("a target outside of the vocabulary of a student is found as cross entropy finds it",
          "[kernels][device]") {
  TestStream s;
  const Values before(15, 1.0);
  DistilledCrossEntropyArgs args = distilled_args(
      tensor_of(before, {3, 5}, DType::kF32, s.stream),
      tensor_of(Values(12, 2.0), {3, 4}, DType::kF32, s.stream), {4, 5, 0}, {}, s.stream);
  args.student.gradients = DType::kF32;
  if (s.stream.device() == Device::cpu()) {
    CHECK_THROWS_AS(distilled_cross_entropy(s.stream, args), DataError);
    CHECK_THROWS_WITH(distilled_cross_entropy(s.stream, args),
                      Catch::Contains("row 1 has target 5, expected < 5"));
    CHECK(values_of(args.student.logits.tensor) == before);
    return;
  }
  distilled_cross_entropy(s.stream, args);
  CHECK(std::isnan(values_of(args.student.losses)[1]));
  CHECK(std::isnan(values_of(args.divergences)[1]));
  CHECK(values_of(args.student.losses)[0] ==
        Approx(0.5 * std::log(5.0) + 0.5 * std::log(5.0 / 4.0)));
  for (const double v : values_of(args.student.logits.tensor.narrow(5, 5))) CHECK(std::isnan(v));
  DeviceFlags flags(s.stream);
  CHECK_THROWS_AS(flags.wait_and_check("distillation"), DataError);
}

}  // namespace
}  // namespace ds::kernels
