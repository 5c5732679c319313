// ProbedStore: another store's parameters, where those of one block have weights of this one, which
// may be anything. Gradients go where the other writes them, and stay there: nothing is reduced,
// and the other's weights are not touched. For stores that keep weights and gradients whole (ZeRO
// stages 0 and 1). The other store outlives it.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "model/pass/param.h"

namespace ds {

class ProbedStore final : public ParameterStore {
 public:
  // `block`: parameters in fp32. Allocates room for their weights, undefined, from
  // the stream's memory.
  ProbedStore(ParameterStore& store, std::span<const ParamId> block, Stream& stream);

  // These return the weight of a parameter of the block that is seen, and its gradient once a
  // micro-step has made one, until something else is computed.
  const Tensor& weight(ParamId id) const { return weights_.at(id); }
  const Tensor& gradient(ParamId id) const { return gradients_.at(id); }

  ParamId add(ParamSpec spec) override { return store_.add(std::move(spec)); }
  void seal() override { store_.seal(); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId /*id*/) override {}
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }

 private:
  ParameterStore& store_;
  std::map<ParamId, Tensor> weights_, gradients_;
};

}  // namespace ds
