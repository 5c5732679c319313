// WatchedStore: another store, with somebody who looks at each weight when it is first leased and
// at each gradient when it is complete. For one step; the other store outlives it.
#pragma once

#include <map>
#include <set>

#include "model/pass/number_watch.h"
#include "model/pass/param.h"

namespace ds {

class WatchedStore final : public ParameterStore {
 public:
  WatchedStore(ParameterStore& store, NumberWatch& watch) : store_(store), watch_(watch) {}

  ParamId add(ParamSpec spec) override { return store_.add(std::move(spec)); }
  void seal() override { store_.seal(); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId id) override;
  void rows_touched(ParamId id, const Tensor& order) override { store_.rows_touched(id, order); }
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }
  void begin_micro_step() override { store_.begin_micro_step(); }
  void end_micro_step() override { store_.end_micro_step(); }
  void reduce_gradients() override { store_.reduce_gradients(); }
  Tensor summed_gradient(ParamId id) override { return store_.summed_gradient(id); }

 private:
  ParameterStore& store_;
  NumberWatch& watch_;
  std::set<ParamId> seen_;            // weights; they do not change within a step
  std::map<ParamId, Tensor> writes_;  // gradients that are being written
};

}  // namespace ds
