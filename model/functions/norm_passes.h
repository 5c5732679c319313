// The two passes of a norm, for functions that have it among others. Not differentiable by
// themselves.
#pragma once

#include "model/functions/functions.h"

namespace ds {

// What the backward pass reads again.
struct NormSums {
  Tensor sum, mean, inv_std;  // mean undefined for RMS norm
};
struct NormValues {
  NormSums of;
  Tensor y;
};
// `branch` may be undefined; see norm().
NormValues normalize(Context& context, const Tensor& residual, const Tensor& branch,
                     const NormSpec& spec);
// Writes the gradients of the weights, and returns that of the sum: through y, and `dsum`, if it is
// there. It takes the place of one of them that nobody else holds.
Tensor norm_gradient(Stream& stream, ParameterStore& store, const NormSpec& spec,
                     const NormSums& sums, const Tensor& dy, const Tensor& dsum);

}  // namespace ds
