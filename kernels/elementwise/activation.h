// Pointwise activations and dropout, forward and backward.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/activation_kind.h"
#include "kernels/front/micro_inputs.h"

namespace ds::kernels {

void activation_forward(Stream& stream, Activation kind, const Tensor& x, Tensor& y);
// dx = dy * f'(x); dx may alias dy.
void activation_backward(Stream& stream, Activation kind, const Tensor& x, const Tensor& dy,
                         Tensor& dx);

// Gated linear units (Shazeer, arXiv 2002.05202): gate_up [N, 2F] holds gate in columns [0, F) and
// up in [F, 2F); y [N, F] = f(gate) * up. SwiGLU is the one whose f is silu.
void glu_forward(Stream& stream, Activation f, const Tensor& gate_up, Tensor& y);
void glu_backward(Stream& stream, Activation f, const Tensor& gate_up, const Tensor& dy,
                  Tensor& dgate_up);

// Inverted dropout: y = x / (1 - p) where the mask's rng().uniform(first_sample * sample_numel +
// skipped + i) >= p, else 0; a sample has sample_numel elements. Applied to dy with the same
// arguments it is its own backward, so no mask is kept. y may alias x.
void dropout(Stream& stream, const Tensor& x, float p, const DropoutMask& mask,
             int64_t sample_numel, Tensor& y);

}  // namespace ds::kernels
