// 1-bit Adam and 1-bit LAMB (pure): optimizers that exchange momenta by 1-bit compression after a
// warm-up. State machines of one rank; the exchange between two calls is the caller's, so the same
// code runs over a communicator, over several ranks in one address space, or on one rank without
// exchange.
//
//   accumulate(gradients) -> [phase kCompressed: average momentum() over ranks] -> update(weights)
//
// While phase() is kWarmUp the caller averages the gradients themselves before accumulate(). The
// first step, kSetUp, changes nothing (the reference only sets its buffers up then). No bias
// correction. Sources: Tang et al. (arXiv 2102.02888), Li et al. (arXiv 2104.06069), DeepSpeed's
// rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/sections/optimizer.h"

namespace ds {

enum class OneBitPhase { kSetUp, kWarmUp, kCompressed };

// One tensor; every rank has its own with the same weights. In kCompressed the variance stays
// frozen and each rank's own gradient goes into its momentum.
class OneBitAdam {
 public:
  OneBitAdam(const OneBitAdamParams& params, int64_t numel);

  OneBitPhase phase() const;  // of the step that accumulate() begins
  void accumulate(std::span<const float> grad);
  std::span<float> momentum() { return momentum_; }
  void update(std::span<float> weight);
  void set_lr(double lr) { params_.lr = lr; }

 private:
  OneBitAdamParams params_;
  int64_t step_ = 0;  // finished steps
  std::vector<float> momentum_, variance_;
};

// Several tensors, because momenta are scaled to a common magnitude before compression. After the
// warm-up the trust ratio is its frozen average times a factor that follows a second, live
// variance.
class OneBitLamb {
 public:
  OneBitLamb(const OneBitLambParams& params, std::span<const int64_t> numels);

  OneBitPhase phase() const;
  void accumulate(std::span<const std::span<const float>> grads);
  std::span<float> momentum() { return momentum_; }  // all tensors in order, scaled in kCompressed
  void update(std::span<const std::span<float>> weights);
  void set_lr(double lr) { params_.lr = lr; }

  // LAMB coefficient per tensor of the last step; empty after kSetUp.
  const std::vector<double>& coefficients() const { return coefficients_; }

 private:
  struct Tensor {
    int64_t offset, numel;
    std::vector<float> variance, live_variance;
    double frozen_ratio = 0, last_factor = 1, momentum_scale = 1;
  };

  std::span<float> momentum_of(const Tensor& tensor);
  void unite_scales();
  double warm_up(Tensor& tensor, std::span<float> weight);
  double compressed(Tensor& tensor, std::span<float> weight);
  double live_factor(Tensor& tensor, double preliminary_norm, double update_norm) const;

  OneBitLambParams params_;
  int64_t step_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<float> momentum_, last_momentum_;
  std::vector<double> coefficients_;
};

}  // namespace ds
