// BlockHessian: products of vectors with the second derivative of the loss of one micro-batch by
// the weights w of one block, from differences of its first derivative g:
//   H v = (g(w + h v) - g(w - h v)) / 2h,   h = cbrt(u) min(|w| / |v|, max|w_i| / max|v_i|)
// with the unit u of rounding of fp32: between what h^2 leaves out and what rounding of g makes,
// which h divides. The second bound is for vectors of few large elements. The loss is the mean over
// the micro-batches of all ranks, with the dropout that the step had. Weights and state of the run
// stay as they are. Between steps only.
#pragma once

#include <span>
#include <vector>

#include "core/device/host_copy.h"
#include "train/eigenvalue/probed_store.h"
#include "train/engine.h"

namespace ds {

// A micro-batch that was read once, and is asked for again and again.
class HeldBatch final : public BatchSource {
 public:
  HeldBatch(Engine& engine, BatchSource& source, int64_t step, int micro_step);

  int64_t step() const { return step_; }
  int micro_step() const { return micro_step_; }
  // Fills in that micro-step, whatever is asked for.
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int micro_step) const override { return source_.first_sample(micro_step); }

 private:
  BatchSource& source_;
  const int64_t step_;
  const int micro_step_;
  MicroBatch held_;
};

class BlockHessian {
 public:
  // `block`: parameters of the engine's store. All that is referred to outlives this. What it
  // takes of the device is as much as the block's weights twice, and of the host's heap five times;
  // on meta nothing of the latter.
  BlockHessian(Engine& engine, HeldBatch& batch, HostCopy& copy, std::span<const ParamId> block);

  // Returns how long v and products are: the elements of the parameters, one after the other.
  int64_t numel() const { return numel_; }
  // Collective; the same v on all ranks.
  std::vector<float> times(const std::vector<float>& v);
  // What times() does with any vector but zeros, on meta, where vectors are empty.
  void rehearse();

 private:
  void read_weights();
  std::vector<float> difference(const std::vector<float>& v, double h);  // times() with that h
  double step_along(const std::vector<float>& v) const;  // h; 0 for a vector of zeros
  void move_weights(const std::vector<float>& v, double by);
  std::vector<float> gradient(const std::vector<float>& v, double by);
  void add_ranks(std::vector<float>& sum);

  Engine& engine_;
  HeldBatch& batch_;
  HostCopy& copy_;
  const std::vector<ParamId> block_;
  ProbedStore store_;
  int64_t numel_ = 0;
  std::vector<float> weights_;  // of the engine; empty on meta
  Tensor sum_;                  // over ranks; undefined where there is one
};

}  // namespace ds
