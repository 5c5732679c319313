// Magnitudes of a linear layer's outputs beside its adapters (DoRA; Liu et al., arXiv 2402.09353):
// y = m / |W + s B A| * (x W^T + s x A^T B^T) + b, with a trained m [out] and the length of each
// row of W + s B A, which no gradient goes through. W + s B A is never made. On tensors; nothing is
// recorded on a tape here.
#pragma once

#include <vector>

#include "model/functions/functions.h"
#include "model/parallel/parallel.h"

namespace ds {

// What a forward pass made of the magnitudes of a layer's parts, for its backward pass.
struct Magnitudes {
  struct OfPart {
    Tensor squares{};  // fp32 [out]: of the lengths
    Tensor factors{};  // fp32 [out]: m / length
  };
  std::vector<OfPart> parts{};  // undefined tensors where a part has none; empty where none has
};

bool has_magnitudes(const LinearSpec& spec);

// y [N, out()] of what weights and adapters give, `before` [N, out()], without biases. Where ranks
// have some of a layer's inputs each (spec.is_part_of_sum), the lengths are collective over
// Axis::kTensor.
Magnitudes apply_magnitudes(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                            const Parallel& parallel, const Tensor& before, bool adds_bias,
                            Tensor& y);
// The gradient of `before`, of dy [N, out()].
Tensor gradient_before(Stream& stream, const LinearSpec& spec, const Magnitudes& magnitudes,
                       const Tensor& dy);
// The gradients of the magnitudes into the store's slots.
void write_magnitude_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                               const Magnitudes& magnitudes, const Tensor& before,
                               const Tensor& dy);

}  // namespace ds
