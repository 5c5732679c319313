// Activations on the device: each is a type with its value and its derivative. Formulas are those
// of kernels/elementwise/activation_cpu.cpp; what is fused is written so, for bits that no compiler
// decides.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/front/activation_kind.h"

namespace ds::cuda {

using kernels::Activation;

inline __device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

// s + x s (1 - s) factor. Where s is exactly 0 or 1 the second term is 0, also for infinite x.
inline __device__ float gated_slope(float x, float s, float factor) {
  const float bell = fmaf(-s, s, s);
  return bell == 0.0F ? s : fmaf(x * bell, factor, s);
}

struct Identity {
  static __device__ float value(float x) { return x; }
  static __device__ float slope(float) { return 1.0F; }
};

struct GeluTanh {
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2/pi)
  static __device__ float gate(float x) {
    return sigmoid(x * fmaf(x * x, 0.044715F * kTwice, kTwice));
  }
  static __device__ float value(float x) { return x * gate(x); }
  static __device__ float slope(float x) {
    return gated_slope(x, gate(x), fmaf(x * x, 3 * 0.044715F * kTwice, kTwice));
  }
};

struct GeluExact {
  // From the tail: 1 + erf would lose what is left of it for negative x.
  static __device__ float distribution(float x) {
    const float tail = 0.5F * erfcf(fabsf(x) * 0.707106781F);
    return x < 0.0F ? tail : 1.0F - tail;
  }
  static __device__ float value(float x) { return x * distribution(x); }
  static __device__ float slope(float x) {
    const float density = expf(x * x * -0.5F) * 0.398942280F;
    return density == 0.0F ? distribution(x) : fmaf(x, density, distribution(x));
  }
};

struct Silu {
  static __device__ float value(float x) { return x * sigmoid(x); }
  static __device__ float slope(float x) { return gated_slope(x, sigmoid(x), 1.0F); }
};

struct QuickGelu {
  static constexpr float kSteepness = 1.702F;
  static __device__ float gate(float x) { return sigmoid(kSteepness * x); }
  static __device__ float value(float x) { return x * gate(x); }
  static __device__ float slope(float x) { return gated_slope(x, gate(x), kSteepness); }
};

struct Relu {
  static __device__ float value(float x) { return x < 0.0F ? 0.0F : x; }  // NaN passes
  static __device__ float slope(float x) { return x > 0.0F ? 1.0F : 0.0F; }
};

struct Tanh {
  static __device__ float value(float x) { return tanhf(x); }
  static __device__ float slope(float x) {
    const float e = expf(-2.0F * fabsf(x)), sum = 1.0F + e;
    return 4.0F * e / (sum * sum);
  }
};

// Calls body.template operator()<F>() with the type of the activation.
template <class Body>
void on_activation(Activation kind, Body&& body) {
  switch (kind) {
    case Activation::kNone:
      return body.template operator()<Identity>();
    case Activation::kGeluTanh:
      return body.template operator()<GeluTanh>();
    case Activation::kGeluExact:
      return body.template operator()<GeluExact>();
    case Activation::kSilu:
      return body.template operator()<Silu>();
    case Activation::kRelu:
      return body.template operator()<Relu>();
    case Activation::kTanh:
      return body.template operator()<Tanh>();
    case Activation::kQuickGelu:
      return body.template operator()<QuickGelu>();
  }
}

}  // namespace ds::cuda
