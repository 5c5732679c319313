// Distillation where a vocabulary is cut among ranks: what each computes of its columns comes,
// together, to what one computes of all of them.
#include <cmath>

#include "core/device/device_flags.h"
#include "tests/kernels/distillation/distilled_reference.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr int64_t kRows = 5;

struct Cut {
  int64_t begin, end;
  int64_t numel() const { return end - begin; }
};

Tensor columns_of(const Tensor& all, const Cut& cut, Stream& stream) {
  const Values values = values_of(all);
  const int64_t width = std::ssize(values) / kRows;
  Values out;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = values.begin() + row * width;
    out.insert(out.end(), begin + cut.begin, begin + cut.end);
  }
  return tensor_of(out, {kRows, cut.numel()}, all.dtype(), stream);
}

// The ranks of `cuts`, each of which has its columns of what `whole` has all of.
std::vector<DistilledCrossEntropyArgs> run_parts(Stream& stream,
                                                 const DistilledCrossEntropyArgs& whole,
                                                 const std::vector<Cut>& cuts) {
  const auto ranks = std::ssize(cuts);
  const int64_t vocabulary = cuts.back().end, of_rank = kRows * kNumbersOfDistilledPart;
  const Tensor numbers =
      Tensor::empty({ranks * kRows, kNumbersOfDistilledPart}, DType::kF32, stream);
  std::vector<DistilledCrossEntropyArgs> parts;
  for (int64_t r = 0; r < ranks; ++r) {
    const Cut& cut = cuts[to_size(r)];
    DistilledCrossEntropyArgs& own = parts.emplace_back(whole);
    own.student.logits =
        matrix(columns_of(whole.student.logits.tensor, cut, stream), kRows, cut.numel());
    own.teacher = matrix(columns_of(whole.teacher.tensor, cut, stream), kRows, cut.numel());
    own.student.losses = Tensor::empty({kRows}, DType::kF32, stream);
    own.divergences = Tensor::empty({kRows}, DType::kF32, stream);
    Tensor mine = numbers.narrow(r * of_rank, of_rank);
    distillation_part(stream, own, {.first = cut.begin, .vocabulary = vocabulary}, mine);
  }
  for (size_t r = 0; r < parts.size(); ++r) {
    distilled_cross_entropy_of_parts(stream, parts[r],
                                     {.first = cuts[r].begin, .vocabulary = vocabulary}, numbers);
  }
  return parts;
}

void check_parts(Stream& stream, const DistilledCrossEntropyArgs& whole,
                 const std::vector<Cut>& cuts) {
  const auto parts = run_parts(stream, whole, cuts);
  DistilledCrossEntropyArgs all = whole;
  all.student.losses = Tensor::empty({kRows}, DType::kF32, stream);
  all.divergences = Tensor::empty({kRows}, DType::kF32, stream);
  all.student.logits.tensor = columns_of(whole.student.logits.tensor, {0, cuts.back().end}, stream);
  distilled_cross_entropy(stream, all);
  for (size_t r = 0; r < parts.size(); ++r) {
    CAPTURE(r);
    const SoftmaxCrossEntropyArgs& own = parts[r].student;
    CHECK(same_bits(own.losses, parts[0].student.losses));
    CHECK(same_bits(parts[r].divergences, parts[0].divergences));
    CHECK(error_of(own.losses, values_of(all.student.losses)) < 1e-6);
    CHECK(error_of(parts[r].divergences, values_of(all.divergences)) < 2e-6);
    const Tensor expected = columns_of(all.student.logits.tensor, cuts[r], stream);
    if (parts.size() == 1) {
      CHECK(same_bits(own.losses, all.student.losses));
      CHECK(same_bits(own.logits.tensor, expected));
    }
    if (own.logits.tensor.dtype() == DType::kF32) {
      CHECK(error_of(own.logits.tensor, values_of(expected)) < 1e-6);
    } else {
      CHECK(error_of(own.logits.tensor, values_of(expected)) <
            tolerance_of(own.logits.tensor.dtype()));
    }
  }
}

DistilledCrossEntropyArgs whole_of(int64_t columns, DType dtype, double spread,
                                   const DistillationRule& rule, Stream& stream) {
  DistilledCrossEntropyArgs args =
      distilled_args(random_tensor({kRows, columns}, dtype, 3, stream, spread),
                     random_tensor({kRows, columns}, dtype, 4, stream, spread),
                     distilled_targets(kRows, columns), rule, stream);
  args.student.gradients = dtype;
  return args;
}

TEST_CASE("parts of distilled logits come to the losses and gradients of all of them",
          "[kernels][device]") {
  TestStream s;
  const std::vector<std::vector<Cut>> all_cuts{
      {{0, 65}}, {{0, 5}, {5, 9}}, {{0, 1}, {1, 70}, {70, 1119}}};
  for (const DType dtype : float_dtypes()) {
    for (const std::vector<Cut>& cuts : all_cuts) {
      for (const double temperature : {0.5, 1.0, 4.0}) {
        CAPTURE(name_of(dtype), cuts.size(), temperature);
        const DistillationRule rule{.alpha = 0.75, .beta = 0.5, .temperature = temperature};
        DistilledCrossEntropyArgs whole = whole_of(cuts.back().end, dtype, 4.0, rule, s.stream);
        check_parts(s.stream, whole, cuts);
        whole.student.row_weights = tensor_of({2, 0, 1, 0.5, 1}, {kRows}, DType::kF32, s.stream);
        whole.student.softcap = 20;
        check_parts(s.stream, whole, cuts);
      }
    }
  }
}

TEST_CASE("parts of very different distilled logits come to those of all of them",
          "[kernels][device]") {
  TestStream s;
  const std::vector<Cut> cuts{{0, 3}, {3, 20}, {20, 31}};
  for (const double temperature : {0.5, 1.0, 4.0}) {
    CAPTURE(temperature);
    const DistillationRule rule{.alpha = 0.5, .beta = 0.5, .temperature = temperature};
    check_parts(s.stream, whole_of(31, DType::kF32, 1e4, rule, s.stream), cuts);
  }
}

TEST_CASE("ranks that need no gradients of distillation get the same losses", "[kernels][device]") {
  TestStream s;
  const std::vector<Cut> cuts{{0, 5}, {5, 9}};
  DistilledCrossEntropyArgs whole = whole_of(9, DType::kF32, 4, {.temperature = 2}, s.stream);
  const auto with_gradients = run_parts(s.stream, whole, cuts);
  whole.student.gradients = {};
  const auto without = run_parts(s.stream, whole, cuts);
  for (size_t r = 0; r < cuts.size(); ++r) {
    CHECK(same_bits(without[r].student.losses, with_gradients[r].student.losses));
    CHECK(same_bits(without[r].divergences, with_gradients[r].divergences));
    CHECK(same_bits(without[r].student.logits.tensor,
                    columns_of(whole.student.logits.tensor, cuts[r], s.stream)));
  }
}

TEST_CASE("a target beyond the vocabulary of all ranks of a student is found by each",
          "[kernels][device]") {
  TestStream s;
  Tensor numbers = Tensor::empty({1, kNumbersOfDistilledPart}, DType::kF32, s.stream);
  DistilledCrossEntropyArgs args =
      distilled_args(random_tensor({1, 4}, DType::kF32, 1, s.stream),
                     random_tensor({1, 4}, DType::kF32, 2, s.stream), {8}, {}, s.stream);
  args.student.gradients = DType::kF32;
  CHECK_NOTHROW(distillation_part(s.stream, args, {.first = 4, .vocabulary = 9}, numbers));
  if (s.stream.device() == Device::cpu()) {
    CHECK_THROWS_WITH(distillation_part(s.stream, args, {.first = 4, .vocabulary = 8}, numbers),
                      Catch::Contains("row 0 has target 8, expected < 8"));
    return;
  }
  distillation_part(s.stream, args, {.first = 4, .vocabulary = 8}, numbers);
  DeviceFlags flags(s.stream);
  CHECK_THROWS_AS(flags.wait_and_check("distillation"), DataError);
  distilled_cross_entropy_of_parts(s.stream, args, {.first = 4, .vocabulary = 8}, numbers);
  CHECK(std::isnan(values_of(args.student.losses)[0]));
  for (const double v : values_of(args.student.logits.tensor)) CHECK(std::isnan(v));
}

}  // namespace
}  // namespace ds::kernels
