// Muon's iteration over matrices, and its small passes.
#include "kernels/optimizer/newton_schulz.h"

#include <cmath>

#include "kernels/optimizer/muon_update.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Matrix {
  int64_t rows, columns;
  Values values;
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, Values(static_cast<size_t>(a.rows * b.columns))};
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b.at(k, j);
      c.values[static_cast<size_t>(i * b.columns + j)] = sum;
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows, Values(a.values.size())};
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) {
      t.values[static_cast<size_t>(j * a.rows + i)] = a.at(i, j);
    }
  }
  return t;
}

// The formula, in fp64 and with x on the side that is smaller.
Matrix reference_of(Matrix x) {
  const bool tall = x.rows > x.columns;
  if (tall) x = transposed(x);
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix r = times(x, transposed(x));
    const Matrix rx = times(r, x), rrx = times(r, rx);
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = 3.4445 * x.values[i] - 4.7750 * rx.values[i] + 2.0315 * rrx.values[i];
    }
  }
  return tall ? transposed(x) : x;
}

Values made_by(NewtonSchulzForm form, const Matrix& m, DType dtype, Stream& stream) {
  const Tensor x = tensor_of(m.values, {m.rows * m.columns}, dtype, stream);
  const std::array<MatrixSize, 2> sizes{{{m.rows + 1, m.columns + 5}, {m.rows, m.columns}}};
  NewtonSchulz iteration(form, dtype, sizes, stream);
  return values_of(iteration.orthogonalize(x, m.rows, m.columns));
}

TEST_CASE("both forms follow the formula, whichever side is longer", "[kernels][device]") {
  TestStream s(3);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                              {1, 7},
                                                                              {16, 16},
                                                                              {17, 40},
                                                                              {40, 17},
                                                                              {24, 96},
                                                                              {96, 24},
                                                                              {33, 37},
                                                                              {64, 64},
                                                                              {130, 65},
                                                                              {65, 200},
                                                                              {150, 131}}) {
    const Matrix m{rows, columns,
                   values_of(random_tensor({rows * columns}, DType::kF32, 5, s.stream))};
    const Values wanted = reference_of(m).values;
    for (const NewtonSchulzForm form : {NewtonSchulzForm::kStandard, NewtonSchulzForm::kGram}) {
      INFO(rows << " x " << columns << ", form " << static_cast<int>(form));
      const Values made = made_by(form, m, DType::kF32, s.stream);
      const Values rough = made_by(form, m, DType::kBF16, s.stream);
      double off = 0, rough_off = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        off = std::max(off, std::abs(made[i] - wanted[i]));
        rough_off = std::max(rough_off, std::abs(rough[i] - wanted[i]));
      }
      UNSCOPED_INFO("off by " << off << " and " << rough_off);
      CHECK(off < 2e-5);
      CHECK(rough_off < 0.1);
    }
  }
}

TEST_CASE("rows that are alike are told apart as the formula does", "[kernels][device]") {
  // What is symmetric is made of halves: of a block, the quarter beside its diagonal has here the
  // largest numbers, and other blocks have none like them.
  TestStream s(1);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 96}, {96, 64}, {128, 200}}) {
    constexpr int64_t kHalf = 32;
    Matrix m{std::min(rows, columns), std::max(rows, columns),
             values_of(random_tensor({rows * columns}, DType::kF32, 7, s.stream))};
    for (int64_t i = 0; i < m.rows; ++i) {
      if (i / kHalf % 2 == 0) continue;
      for (int64_t j = 0; j < m.columns; ++j) {
        double& value = m.values[static_cast<size_t>(i * m.columns + j)];
        value = m.at(i - kHalf, j) + 0.5 * value;
      }
    }
    if (rows > columns) m = transposed(m);
    const Values wanted = reference_of(m).values;
    for (const NewtonSchulzForm form : {NewtonSchulzForm::kStandard, NewtonSchulzForm::kGram}) {
      const Values rough = made_by(form, m, DType::kBF16, s.stream);
      double off = 0;
      for (size_t i = 0; i < wanted.size(); ++i)
        off = std::max(off, std::abs(rough[i] - wanted[i]));
      INFO(rows << " x " << columns << ", form " << static_cast<int>(form) << ", off by " << off);
      CHECK(off < 0.03);
    }
  }
}

TEST_CASE("of a matrix of zeros nothing is made but zeros", "[kernels][device]") {
  TestStream s;
  const Matrix zeros{4, 8, Values(32)};
  CHECK(made_by(NewtonSchulzForm::kGram, zeros, DType::kF32, s.stream) == Values(32));
}

TEST_CASE("Muon's passes follow their formulas in every dtype, and leave all where they skip",
          "[kernels][device]") {
  TestStream s(3);
  constexpr int64_t kN = 4999;
  for (const DType grad_dtype : float_dtypes()) {
    for (const DType x_dtype : {DType::kF32, DType::kBF16}) {
      const Tensor m = random_tensor({kN}, DType::kF32, 1, s.stream);
      const Tensor w = random_tensor({kN}, DType::kF32, 2, s.stream);
      const Tensor grad = random_tensor({kN}, grad_dtype, 3, s.stream);
      const Tensor x = Tensor::empty({kN}, x_dtype, s.stream);
      const Tensor copy = Tensor::zeros({kN}, grad_dtype, s.stream);
      const Values m0 = values_of(m), w0 = values_of(w), g = values_of(grad);
      const StepInputs in{.lr = 0.02};
      const MuonRule rule{.weight_decay = 0.1, .lr_scale = 2, .size = 1.5};
      const auto step = [&](const StepScalars& scalars) {
        muon_momentum(s.stream, {.grad = grad, .momentum = m, .x = x}, 0.95F, scalars);
        muon_apply(s.stream, {.master = w, .x = x, .copy = copy}, rule, scalars);
      };
      step(testing::scalars_of(s.stream, in, {.grad_scale = 0.5F, .skip = 1}));
      REQUIRE(values_of(m) == m0);
      REQUIRE(values_of(w) == w0);
      REQUIRE(values_of(x) == Values(kN));
      step(testing::scalars_of(s.stream, in, {.grad_scale = 0.5F}));
      const Values m1 = values_of(m), w1 = values_of(w), x1 = values_of(x);
      const double rounding = x_dtype == DType::kF32 ? 1e-6 : 0.01;
      for (size_t i = 0; i < kN; ++i) {
        const double moved = m0[i] + 0.05 * (0.5 * g[i] - m0[i]);
        REQUIRE(m1[i] == Approx(moved).margin(1e-6));
        REQUIRE(x1[i] ==
                Approx(0.5 * g[i] + 0.95 * (moved - 0.5 * g[i])).margin(1e-6).epsilon(rounding));
        REQUIRE(w1[i] == Approx(w0[i] * (1 - 0.04 * 0.1) - 0.04 * 1.5 * x1[i]).margin(1e-6));
      }
      REQUIRE(same_bits(copy, tensor_of(w1, {kN}, grad_dtype, s.stream)));
    }
  }
}

}  // namespace
}  // namespace ds::kernels
