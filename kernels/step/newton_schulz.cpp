#include "kernels/step/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "core/index.h"
#include "kernels/argument.h"
#include "kernels/gemm/matmul.h"
#include "kernels/reduce.h"
#include "kernels/step/muon_update.h"

namespace ds::kernels {
namespace {

constexpr int kSteps = 5;
constexpr Quintic kQuintic{.a = 3.4445F, .b = -4.7750F, .c = 2.0315F};
// Errors of x x' grow twelvefold with a step: it is made anew of x itself after this many.
constexpr int kStepsOfGram = 3;
constexpr int kSmall = 5;  // matrices of the smaller side: r, s, z, and of the gram form q and t

}  // namespace

struct NewtonSchulz::Matrix {
  Tensor values;
  Tensor spare;  // takes the next x
  int64_t rows, columns;
  bool is_wide() const { return rows <= columns; }
  int64_t side() const { return std::min(rows, columns); }
  MatrixView view() const { return matrix(values, rows, columns); }
};

NewtonSchulz::NewtonSchulz(NewtonSchulzForm form, DType dtype, int64_t most_numel,
                           int64_t most_side, Stream& stream)
    : form_(form),
      dtype_(dtype),
      stream_(stream),
      squares_(Tensor::empty({1}, DType::kF64, stream, MemoryTag::kScratch)),
      other_(Tensor::empty({most_numel}, dtype, stream, MemoryTag::kScratch)) {
  for (int i = 0; i < kSmall; ++i) {
    small_.push_back(Tensor::empty({most_side * most_side}, dtype, stream, MemoryTag::kScratch));
  }
}

Tensor NewtonSchulz::small(int which, int64_t side) const {
  return nth(small_, which).narrow(0, side * side);
}

// x x', or x' x of a tall matrix.
void NewtonSchulz::gram(const Matrix& x, const Tensor& to) const {
  const bool wide = x.is_wide();
  matmul(stream_, {.a = x.view(),
                   .b = x.view(),
                   .c = matrix(to, x.side(), x.side()),
                   .transpose_a = wide ? Transpose::kNo : Transpose::kYes,
                   .transpose_b = wide ? Transpose::kYes : Transpose::kNo});
}

void NewtonSchulz::square(const Tensor& x, const Tensor& y, int64_t side, const Tensor& to) const {
  matmul(stream_,
         {.a = matrix(x, side, side), .b = matrix(y, side, side), .c = matrix(to, side, side)});
}

// factor x, or x factor of a tall matrix: factors are symmetric.
void NewtonSchulz::apply(const Tensor& factor, const Matrix& x, const Tensor& to) const {
  const MatrixView by = matrix(factor, x.side(), x.side());
  matmul(stream_, {.a = x.is_wide() ? by : x.view(),
                   .b = x.is_wide() ? x.view() : by,
                   .c = matrix(to, x.rows, x.columns)});
}

void NewtonSchulz::polynomial(const Tensor& r, int64_t side, const Tensor& z) const {
  const Tensor s = small(1, side);
  square(r, r, side, s);
  muon_polynomial(stream_, kQuintic, side, r, s, z);
}

Tensor NewtonSchulz::standard(Matrix x) const {
  const Tensor r = small(0, x.side()), z = small(2, x.side());
  for (int step = 0; step < kSteps; ++step) {
    gram(x, r);
    polynomial(r, x.side(), z);
    apply(z, x, x.spare);
    std::swap(x.values, x.spare);
  }
  return x.values;
}

// r = x x', q = 1; then z = p(r), q = z q, r = z r z, as polynomials of r commute; x = q x in the
// end.
Tensor NewtonSchulz::by_gram(Matrix x) const {
  const int64_t side = x.side();
  Tensor r = small(0, side), z = small(2, side), q = small(3, side), t = small(4, side);
  for (int first = 0; first < kSteps; first += kStepsOfGram) {
    const int steps = std::min(kStepsOfGram, kSteps - first);
    gram(x, r);
    for (int step = 0; step < steps; ++step) {
      polynomial(r, side, z);
      const bool last = step + 1 == steps;
      if (!last) {
        square(z, r, side, t);
        square(t, z, side, r);
      }
      if (step == 0) {
        std::swap(q, z);
      } else {
        square(z, q, side, t);
        std::swap(q, t);
      }
    }
    apply(q, x, x.spare);
    std::swap(x.values, x.spare);
  }
  return x.values;
}

Tensor NewtonSchulz::orthogonalize(const Tensor& x, int64_t rows, int64_t columns) {
  constexpr std::string_view kOp = "newton_schulz";
  detail::require_numel(kOp, "x", stream_, x, rows * columns);
  detail::require_dtype(kOp, "x", x, dtype_);
  const Matrix given{
      .values = x, .spare = other_.narrow(0, x.numel()), .rows = rows, .columns = columns};
  sum_of_squares_into(stream_, x, Write::kOverwrite, squares_);
  muon_normalize(stream_, x, squares_);
  const bool pays = 2 * std::max(rows, columns) > 3 * given.side();
  return form_ == NewtonSchulzForm::kGram && pays ? by_gram(given) : standard(given);
}

}  // namespace ds::kernels
