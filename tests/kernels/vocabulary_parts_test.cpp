// A vocabulary that is cut among ranks: what each computes of its columns of the logits and its
// rows of the table comes, together, to what one computes of all of them.
#include <cmath>

#include "core/device/device_flags.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/softmax/softmax.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr float kScale = 0.25F;
constexpr int64_t kRows = 5;

struct Cut {
  int64_t begin, end;
  int64_t numel() const { return end - begin; }
};

// Columns of a matrix [kRows, width], row by row with so many zeros behind each.
Values columns_of(const Values& all, int64_t width, const Cut& cut, int64_t apart = 0) {
  Values out;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = all.begin() + row * width;
    out.insert(out.end(), begin + cut.begin, begin + cut.end);
    out.resize(out.size() + static_cast<size_t>(apart));
  }
  return out;
}

std::vector<int32_t> targets_of(int64_t vocabulary) {
  const auto last = static_cast<int32_t>(vocabulary - 1);
  return {0, last, -100, last / 2, last / 3};
}

// What the ranks of `cuts` come to, each with its columns of the logits, whose rows have `apart`
// elements between them.
struct OfParts {
  std::vector<Values> losses, gradients;
};
OfParts run_parts(Stream& stream, const Values& logits, const std::vector<Cut>& cuts, DType dtype,
                  DType gradients, int64_t apart, const Values& weights = {}, float softcap = 0) {
  const int64_t vocabulary = cuts.back().end;
  const auto ranks = static_cast<int64_t>(cuts.size());
  const Tensor targets = tokens_of(targets_of(vocabulary), stream);
  const int64_t numel = kRows * kNumbersOfPart;
  Tensor numbers = Tensor::empty({ranks * kRows, kNumbersOfPart}, DType::kF32, stream);
  std::vector<SoftmaxCrossEntropyArgs> args;
  for (int64_t r = 0; r < ranks; ++r) {
    const Cut& cut = cuts[static_cast<size_t>(r)];
    const int64_t stride = cut.numel() + apart;
    const Tensor own_logits =
        tensor_of(columns_of(logits, vocabulary, cut, apart), {kRows, stride}, dtype, stream);
    args.push_back({.logits = {own_logits, kRows, cut.numel(), stride, 0},
                    .targets = targets,
                    .row_weights = weights.empty()
                                       ? Tensor()
                                       : tensor_of(weights, {kRows}, DType::kF32, stream),
                    .losses = Tensor::empty({kRows}, DType::kF32, stream),
                    .grad_scale = kScale,
                    .softcap = softcap,
                    .gradients = gradients});
    Tensor own = numbers.narrow(r * numel, numel);
    softmax_part(stream, args.back(), {.first = cut.begin, .vocabulary = vocabulary}, own);
  }
  OfParts out;
  for (int64_t r = 0; r < ranks; ++r) {
    const Cut& cut = cuts[static_cast<size_t>(r)];
    const SoftmaxCrossEntropyArgs& own = args[static_cast<size_t>(r)];
    softmax_cross_entropy_of_parts(stream, own, {.first = cut.begin, .vocabulary = vocabulary},
                                   numbers);
    out.losses.push_back(values_of(own.losses));
    const Values all = values_of(own.logits.tensor.reinterpret(gradients));
    const int64_t stride = static_cast<int64_t>(all.size()) / kRows;
    Values& of_rank = out.gradients.emplace_back();
    for (int64_t row = 0; row < kRows; ++row) {
      const auto begin = all.begin() + row * stride;
      of_rank.insert(of_rank.end(), begin, begin + cut.numel());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("parts of capped logits come to the gradients of all of them", "[kernels][device]") {
  TestStream s;
  constexpr float kCap = 3;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    const std::vector<Cut> cuts{{0, 1}, {1, 70}, {70, 300}};
    Tensor logits = random_tensor({kRows, 300}, dtype, 3, s.stream, 4.0);
    softcap(s.stream, kCap, logits);
    const Values capped = values_of(logits);
    const OfParts parts = run_parts(s.stream, capped, cuts, dtype, dtype, 0, {}, kCap);
    SoftmaxCrossEntropyArgs args{.logits = matrix(logits, kRows, 300),
                                 .targets = tokens_of(targets_of(300), s.stream),
                                 .losses = Tensor::empty({kRows}, DType::kF32, s.stream),
                                 .grad_scale = kScale,
                                 .softcap = kCap,
                                 .gradients = dtype};
    softmax_cross_entropy(s.stream, args);
    const Values whole = values_of(logits);
    for (size_t r = 0; r < cuts.size(); ++r) {
      CHECK(error_of(args.losses, parts.losses[r]) < 3e-6);
      const Values expected = columns_of(whole, 300, cuts[r]);
      const Tensor got = tensor_of(parts.gradients[r], {kRows, cuts[r].numel()}, dtype, s.stream);
      CHECK(error_of(got, expected) < tolerance_of(dtype));
    }
  }
}

TEST_CASE("parts of the logits come to the losses and gradients of all of them",
          "[kernels][device]") {
  TestStream s;
  for (const auto& [dtype, gradients] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF32, DType::kBF16},
        std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kF16, DType::kF16}}) {
    for (const std::vector<Cut>& cuts : {std::vector<Cut>{{0, 9}}, std::vector<Cut>{{0, 5}, {5, 9}},
                                         std::vector<Cut>{{0, 1}, {1, 70}, {70, 2119}}}) {
      const int64_t vocabulary = cuts.back().end;
      CAPTURE(name_of(dtype), name_of(gradients), vocabulary, cuts.size());
      const Tensor logits = random_tensor({kRows, vocabulary}, dtype, 3, s.stream, 4.0);
      const Values values = values_of(logits);
      Values expected = softmax(values, vocabulary), losses(kRows);
      const std::vector<int32_t> targets = targets_of(vocabulary);
      for (int64_t row = 0; row < kRows; ++row) {
        const int32_t target = targets[static_cast<size_t>(row)];
        double* const p = &expected[static_cast<size_t>(row * vocabulary)];
        losses[static_cast<size_t>(row)] = target < 0 ? 0.0 : -std::log(p[target]);
        if (target >= 0) p[target] -= 1;
        for (int64_t v = 0; v < vocabulary; ++v) p[v] *= target < 0 ? 0.0 : double{kScale};
      }
      const int64_t apart = cuts.size() == 2 ? 3 : 0;
      const OfParts got = run_parts(s.stream, values, cuts, dtype, gradients, apart);
      for (size_t r = 0; r < cuts.size(); ++r) {
        CHECK(got.losses[r] == got.losses[0]);
        const Tensor own = tensor_of(got.losses[r], {kRows}, DType::kF32, s.stream);
        CHECK(error_of(own, losses) < 3e-6);
        const Tensor of_rank =
            tensor_of(got.gradients[r], {kRows, cuts[r].numel()}, gradients, s.stream);
        CHECK(error_of(of_rank, columns_of(expected, vocabulary, cuts[r])) <
              tolerance_of(gradients));
      }
    }
  }
}

TEST_CASE("parts of the logits know the weights of rows", "[kernels][device]") {
  TestStream s;
  const std::vector<Cut> cuts{{0, 5}, {5, 9}};
  const Values logits = values_of(random_tensor({kRows, 9}, DType::kF32, 3, s.stream, 4.0));
  const auto run = [&](const Values& weights) {
    return run_parts(s.stream, logits, cuts, DType::kF32, DType::kF32, 0, weights);
  };
  const Values weights{2, 0, 1, 0.5, 1};
  const OfParts plain = run({}), got = run(weights);
  for (size_t r = 0; r < cuts.size(); ++r) {
    for (size_t row = 0; row < to_size(kRows); ++row) {
      CHECK(got.losses[r][row] == Approx(plain.losses[r][row] * weights[row]));
      for (size_t c = 0; c < to_size(cuts[r].numel()); ++c) {
        const size_t at = row * to_size(cuts[r].numel()) + c;
        CHECK(got.gradients[r][at] == Approx(plain.gradients[r][at] * weights[row]));
      }
    }
  }
}

TEST_CASE("a target beyond the vocabulary of all ranks is found by each", "[kernels]") {
  TestStream s;
  Tensor numbers = Tensor::empty({1, kNumbersOfPart}, DType::kF32, s.stream);
  const SoftmaxCrossEntropyArgs args{
      .logits = matrix(random_tensor({1, 4}, DType::kF32, 1, s.stream), 1, 4),
      .targets = tokens_of({8}, s.stream),
      .losses = Tensor::empty({1}, DType::kF32, s.stream)};
  CHECK_THROWS_WITH(softmax_part(s.stream, args, {.first = 4, .vocabulary = 8}, numbers),
                    Catch::Contains("row 0 has target 8, expected < 8"));
  CHECK_NOTHROW(softmax_part(s.stream, args, {.first = 4, .vocabulary = 9}, numbers));
  CHECK_THROWS_WITH(softmax_part(s.stream, args, {.first = 6, .vocabulary = 9}, numbers),
                    Catch::Contains("columns [6, 10) of a vocabulary of 9"));
}

TEST_CASE("parts of a table give the rows that they have, and get the gradients of these",
          "[kernels][device]") {
  TestStream s;
  const std::vector<int32_t> tokens{4, 0, 4, 6, 1, 2};
  const Tensor ids = tokens_of(tokens, s.stream), order = token_order(s.stream, ids);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t width : {8, 33}) {
      CAPTURE(name_of(dtype), width);
      const Tensor table = random_tensor({7, width}, dtype, 1, s.stream);
      const Tensor positions = random_tensor({3, width}, dtype, 2, s.stream);
      const Tensor dy = random_tensor({6, width}, dtype, 3, s.stream);
      Tensor y = Tensor::empty({6, width}, dtype, s.stream);
      Tensor dtable = Tensor::empty({7, width}, dtype, s.stream);
      embedding_forward(s.stream, ids, table, {}, 3, 0, y);
      embedding_backward(s.stream, order, dy, Write::kOverwrite, dtable);
      const Values whole = values_of(y), gradient = values_of(dtable);
      Values sum(whole.size());
      for (const Cut& cut : {Cut{0, 3}, Cut{3, 4}, Cut{4, 7}}) {
        const Tensor part =
            table.narrow(cut.begin * width, cut.numel() * width).reshape({cut.numel(), width});
        const TablePart here{.first = cut.begin, .vocabulary = 7};
        embedding_forward(s.stream, ids, part, {}, 3, 0, y, here);
        const Values own = values_of(y);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
        // Positions are added also where another rank has the row.
        embedding_forward(s.stream, ids, part, positions, 3, 0, y, here);
        const Values placed = values_of(y), of_places = values_of(positions);
        for (size_t i = 0; i < sum.size(); ++i) {
          if (own[i] == 0) REQUIRE(placed[i] == of_places[i % of_places.size()]);
        }
        Tensor of_part = random_tensor({cut.numel(), width}, dtype, 4, s.stream);
        embedding_backward(s.stream, order, dy, Write::kOverwrite, of_part, here);
        const auto begin = gradient.begin() + cut.begin * width;
        CHECK(values_of(of_part) == Values(begin, begin + cut.numel() * width));
      }
      CHECK(sum == whole);
    }
  }
}

}  // namespace ds::kernels
