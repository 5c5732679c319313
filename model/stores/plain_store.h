// PlainStore: every weight and gradient whole, on one rank. For tests, generation and tools;
// training with or without sharding uses ShardedStore (zero/), which must give the same bits.
#pragma once

#include <optional>
#include <vector>

#include "core/values/index.h"
#include "model/pass/param.h"

namespace ds {

class PlainStore final : public ParameterStore {
 public:
  enum class Gradients : uint8_t { kNone, kAllocate };

  // seal() allocates from the stream and fills every weight by its initializer under `seed`.
  PlainStore(Stream& stream, uint64_t seed, Gradients gradients = Gradients::kAllocate);
  // For weights that are loaded: seal() leaves them undefined, and there are no gradients.
  explicit PlainStore(Stream& stream);

  ParamId add(ParamSpec spec) override;
  void seal() override;
  int count() const override { return narrow<int>(params_.size()); }
  const ParamSpec& spec(ParamId id) const override { return at(id).spec; }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId id) override;
  void expect_uses(ParamId id, int uses) override;
  Tensor summed_gradient(ParamId id) override { return gradient(id); }

  Tensor& weight(ParamId id) { return at(id).weight; }
  // Valid once every use has been reported ready.
  Tensor& gradient(ParamId id);
  // The next contribution to each gradient overwrites; between micro-steps do not call it.
  void clear_gradients();

 private:
  struct Param {
    ParamSpec spec;
    Tensor weight, gradient;
    int uses_expected = 1;
    int uses_ready = 0;      // in this backward pass
    bool slot_open = false;  // grad_slot() without its grad_ready()
    bool fresh = true;       // nothing written since clear_gradients()
  };

  size_t index(ParamId id) const;
  const Param& at(ParamId id) const { return params_[index(id)]; }
  Param& at(ParamId id) { return params_[index(id)]; }

  Stream& stream_;
  const std::optional<uint64_t> seed_;
  const Gradients gradients_;
  bool sealed_ = false;
  std::vector<Param> params_;
};

}  // namespace ds
