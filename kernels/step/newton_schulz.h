// The orthogonal factor of a matrix, nearly: x = U S V' becomes U S' V' with S' near 1, by five
// steps of the iteration x = (a I + b x x' + c (x x')^2) x from x / ||x|| (Jordan 2024). Over the
// smaller of the two sides, so that nothing is transposed in memory.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace ds::kernels {

enum class NewtonSchulzForm : uint8_t {
  kStandard,
  // Steps on the matrix x x' and the product of their polynomials, and x itself twice only: the
  // same polynomial, for fewer operations where one side is longer. Where it is not by half, this
  // is kStandard.
  kGram
};

// Memory of an iteration, for matrices that are no larger. Alive while the stream computes.
class NewtonSchulz {
 public:
  // x is of `dtype`, fp32 or bf16, and has at most so many elements, and so many in its smaller
  // side.
  NewtonSchulz(NewtonSchulzForm form, DType dtype, int64_t most_numel, int64_t most_side,
               Stream& stream);

  // Of x [rows * columns]; what is returned is x or memory of this object's, until the next call.
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

  const NewtonSchulzForm form_;
  const DType dtype_;
  Stream& stream_;
  Tensor squares_;  // fp64 [1]
  Tensor other_;    // as large as x
  std::vector<Tensor> small_;
};

}  // namespace ds::kernels
