// The orthogonal factor of a matrix, nearly: x = U S V' becomes U S' V' with S' near 1, by five
// steps of the iteration x = (a I + b x x' + c (x x')^2) x from x / ||x|| (Jordan 2024). Over the
// smaller of the two sides, so that nothing is transposed in memory.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/device/tensor.h"
#include "kernels/optimizer/newton_schulz_form.h"

namespace ds::kernels {

struct MatrixSize {
  int64_t rows = 0, columns = 0;
  int64_t numel() const { return rows * columns; }
  int64_t side() const { return std::min(rows, columns); }
};

// Memory of an iteration, for any of some matrices. Alive while the stream computes.
class NewtonSchulz {
 public:
  // x is of `dtype`, fp32 or bf16, and of one of `sizes`.
  NewtonSchulz(NewtonSchulzForm form, DType dtype, std::span<const MatrixSize> sizes,
               Stream& stream);

  // Makes x [rows * columns] orthogonal; x is overwritten. What is returned is x or memory of this
  // object's, until the next call.
  Tensor orthogonalize(const Tensor& x, int64_t rows, int64_t columns);

 private:
  struct Matrix;
  Tensor small(int which, int64_t side) const;
  void gram(const Matrix& x, const Tensor& to) const;
  void square(const Tensor& x, const Tensor& y, int64_t side, const Tensor& to) const;
  void apply(const Tensor& factor, const Matrix& x, const Tensor& to) const;
  void polynomial(const Tensor& r, int64_t side, const Tensor& z) const;
  Tensor standard(Matrix x) const;
  Tensor by_gram(Matrix x) const;
  Tensor by_bf16_dots(NewtonSchulzForm form, const Matrix& x) const;

  const NewtonSchulzForm form_;
  const DType dtype_;
  Stream& stream_;
  Tensor squares_;  // fp64 [1]
  Tensor other_;    // as large as x
  std::vector<Tensor> small_;
  Tensor packed_;  // bf16, of the CPU's own products; undefined where they are not used
};

}  // namespace ds::kernels
