// The CPU half of kernels/step/muon_update. Operands have been checked.
#pragma once

#include "kernels/optimizer/muon_update.h"

namespace ds::kernels::detail {

void muon_momentum_cpu(Stream& stream, const MuonMomentumArgs& args, float momentum,
                       const StepScalars& scalars);
void muon_apply_cpu(Stream& stream, const MuonApplyArgs& args, const MuonRule& rule,
                    const StepScalars& scalars);
void muon_normalize_cpu(Stream& stream, const Tensor& x, const Tensor& squares);
void muon_polynomial_cpu(Stream& stream, const Quintic& by, int64_t side, const Tensor& r,
                         const Tensor& s, const Tensor& z);

}  // namespace ds::kernels::detail
