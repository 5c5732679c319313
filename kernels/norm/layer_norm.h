// Layer norm (Ba et al., arXiv 1607.06450) and RMS norm (Zhang and Sennrich, arXiv 1910.07467) over
// the last axis. x and y are [N, C] in any float dtype; gamma and beta [C] in the same; statistics
// fp32.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/write.h"

namespace ds::kernels {

// The weight gradients: their places, and how they are written.
struct LayerNormGrads {
  // [C], float dtype; dbeta undefined for rms_norm. Both undefined: nobody wants them.
  Tensor dgamma = {}, dbeta = {};
  Write write_gamma = Write::kOverwrite;
  Write write_beta = Write::kOverwrite;
};

// mean, inv_std: fp32 [N].
void layer_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                Tensor& y, Tensor& mean, Tensor& inv_std);
// As layer_norm of (x + residual), which is also stored in sum [N, C].
void add_layer_norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                    const Tensor& beta, float eps, Tensor& sum, Tensor& y, Tensor& mean,
                    Tensor& inv_std);
// dx = gradient through the norm, plus `residual_grad` [N, C] when defined. dx may alias dy or it.
void layer_norm_backward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& inv_std, const Tensor& dy, const Tensor& residual_grad,
                         Tensor& dx, LayerNormGrads& grads);

// What the weight of an RMS norm multiplies by: gamma, or 1 + gamma, which weight decay draws to 1
// (Gemma, arXiv 2403.08295). Sum and product are fp32, before the result is rounded.
enum class RmsWeight : uint8_t { kPlain, kOnePlus };

void rms_norm(Stream& stream, const Tensor& x, const Tensor& gamma, float eps, Tensor& y,
              Tensor& inv_rms, RmsWeight weight = RmsWeight::kPlain);
void add_rms_norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                  float eps, Tensor& sum, Tensor& y, Tensor& inv_rms,
                  RmsWeight weight = RmsWeight::kPlain);
void rms_norm_backward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& inv_rms,
                       const Tensor& dy, const Tensor& residual_grad, Tensor& dx,
                       LayerNormGrads& grads, RmsWeight weight = RmsWeight::kPlain);

}  // namespace ds::kernels
