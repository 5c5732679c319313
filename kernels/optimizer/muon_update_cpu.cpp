// Muon's small passes on the CPU: plain loops, beside products that take nearly all of the time.
#include "kernels/optimizer/muon_update_cpu.h"

#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kGrain = 4096;  // elements for which a thread is worth its start

// fp32 or bf16.
template <class Use>
void on_direction(DType dtype, const Use& use) {
  dtype == DType::kF32 ? use.template operator()<float>() : use.template operator()<BF16>();
}

}  // namespace

void muon_momentum_cpu(Stream& stream, const MuonMomentumArgs& args, float momentum,
                       const StepScalars& scalars) {
  const StepOutcome& outcome = scalars.outcome();
  float* m = args.momentum.data<float>();
  on_direction(args.x.dtype(), [&]<class X>() {
    X* x = args.x.data<X>();
    if (outcome.skip != 0) {
      std::fill_n(x, args.x.numel(), X(0.0F));
      return;
    }
    on_float(args.grad.dtype(), [&]<class G>() {
      const G* grad = args.grad.data<G>();
      const float scale = outcome.grad_scale, rest = 1 - momentum;
      stream.pool().parallel_for(args.x.numel(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float g = static_cast<float>(grad[i]) * scale;
          m[i] += rest * (g - m[i]);
          x[i] = static_cast<X>(g + momentum * (m[i] - g));
        }
      });
    });
  });
}

void muon_apply_cpu(Stream& stream, const MuonApplyArgs& args, const MuonRule& rule,
                    const StepScalars& scalars) {
  if (scalars.outcome().skip != 0) return;
  const MuonFactors k = factors_of(rule, scalars.inputs());
  float* weight = args.master.data<float>();
  on_direction(args.x.dtype(), [&]<class X>() {
    const X* x = args.x.data<X>();
    on_float(args.copy.defined() ? args.copy.dtype() : DType::kF32, [&]<class C>() {
      C* copy = args.copy.defined() ? args.copy.data<C>() : nullptr;
      stream.pool().parallel_for(args.x.numel(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          weight[i] = weight[i] * k.keep - k.step * static_cast<float>(x[i]);
          if (copy != nullptr) copy[i] = static_cast<C>(weight[i]);
        }
      });
    });
  });
}

void muon_normalize_cpu(Stream& stream, const Tensor& x, const Tensor& squares) {
  const auto factor = static_cast<float>(1 / (std::sqrt(*squares.data<double>()) + 1e-7));
  on_direction(x.dtype(), [&]<class X>() {
    X* values = x.data<X>();
    stream.pool().parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        values[i] = static_cast<X>(static_cast<float>(values[i]) * factor);
      }
    });
  });
}

void muon_polynomial_cpu(Stream& stream, const Quintic& by, int64_t side, const Tensor& r,
                         const Tensor& s, const Tensor& z) {
  on_direction(r.dtype(), [&]<class X>() {
    const X* first = r.data<X>();
    const X* second = s.data<X>();
    X* to = z.data<X>();
    const int64_t grain = std::max<int64_t>(1, kGrain / side);
    stream.pool().parallel_for(side, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t i = row * side; i < (row + 1) * side; ++i) {
          const float diagonal = i == row * side + row ? by.a : 0;
          to[i] = static_cast<X>(diagonal + by.b * static_cast<float>(first[i]) +
                                 by.c * static_cast<float>(second[i]));
        }
      }
    });
  });
}

}  // namespace ds::kernels::detail
