#include "kernels/optimizer/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "kernels/front/argument.h"
#include "kernels/matmul/matmul.h"
#include "kernels/optimizer/muon_update.h"
#include "kernels/optimizer/newton_schulz_products.h"
#include "kernels/reduce/reduce.h"

namespace ds::kernels {
namespace {

constexpr int kSmall = 5;  // matrices of the smaller side: r, s, z, and of the gram form q and t

// Whether the CPU's own bf16 products make an iteration, on meta as on the CPU it stands for.
bool by_own_products(DType dtype, const MatrixSize& size, const Stream& stream) {
  return dtype == DType::kBF16 && stream.stands_for().kind == Device::Kind::kCpu &&
         size.side() >= detail::kBf16IterationSide && detail::makes_bf16_iterations();
}

}  // namespace

struct NewtonSchulz::Matrix {
  Tensor values;
  Tensor spare;  // takes the next x
  int64_t rows, columns;
  bool is_wide() const { return rows <= columns; }
  int64_t side() const { return std::min(rows, columns); }
  MatrixView view() const { return matrix(values, rows, columns); }
};

NewtonSchulz::NewtonSchulz(NewtonSchulzForm form, DType dtype, std::span<const MatrixSize> sizes,
                           Stream& stream)
    : form_(form),
      dtype_(dtype),
      stream_(stream),
      squares_(Tensor::empty({1}, DType::kF64, stream, MemoryTag::kScratch)) {
  int64_t most_numel = 0, most_side = 0, most_packed = 0;
  for (const MatrixSize& size : sizes) {
    if (by_own_products(dtype, size, stream)) {
      most_packed = std::max(most_packed, detail::bf16_iteration_numel(size.rows, size.columns));
      continue;
    }
    most_numel = std::max(most_numel, size.numel());
    most_side = std::max(most_side, size.side());
  }
  const auto room = [&](int64_t numel) {
    return Tensor::empty({numel}, dtype, stream, MemoryTag::kScratch);
  };
  if (most_packed > 0) packed_ = room(most_packed);
  if (most_numel == 0) return;
  other_ = room(most_numel);
  for (int i = 0; i < kSmall; ++i) small_.push_back(room(most_side * most_side));
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
  muon_polynomial(stream_, kNewtonSchulzQuintic, side, r, s, z);
}

Tensor NewtonSchulz::standard(Matrix x) const {
  const Tensor r = small(0, x.side()), z = small(2, x.side());
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
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
  for (int first = 0; first < kNewtonSchulzSteps; first += kNewtonSchulzStepsOfGram) {
    const int steps = std::min(kNewtonSchulzStepsOfGram, kNewtonSchulzSteps - first);
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

Tensor NewtonSchulz::by_bf16_dots(NewtonSchulzForm form, const Matrix& x) const {
  const detail::Bf16Iteration args{
      .x = x.values, .squares = squares_, .room = packed_, .rows = x.rows, .columns = x.columns};
  stream_.report("newton_schulz", detail::bf16_iteration_cost(form, args));
  if (stream_.device().is_meta()) return x.values;
  const DeviceAccess access(stream_.gate());
  form == NewtonSchulzForm::kGram ? detail::bf16_iteration_gram(stream_, args)
                                  : detail::bf16_iteration_standard(stream_, args);
  return x.values;
}

Tensor NewtonSchulz::orthogonalize(const Tensor& x, int64_t rows, int64_t columns) {
  constexpr std::string_view kOp = "newton_schulz";
  detail::require_numel(kOp, "x", stream_, x, rows * columns);
  detail::require_dtype(kOp, "x", x, dtype_);
  const bool pays = 2 * std::max(rows, columns) > 3 * std::min(rows, columns);
  const NewtonSchulzForm form = pays ? form_ : NewtonSchulzForm::kStandard;
  sum_of_squares_into(stream_, x, Write::kOverwrite, squares_);
  if (by_own_products(dtype_, {rows, columns}, stream_)) {
    return by_bf16_dots(form, {.values = x, .spare = {}, .rows = rows, .columns = columns});
  }
  const Matrix given{
      .values = x, .spare = other_.narrow(0, x.numel()), .rows = rows, .columns = columns};
  muon_normalize(stream_, x, squares_);
  return form == NewtonSchulzForm::kGram ? by_gram(given) : standard(given);
}

}  // namespace ds::kernels
