// SecondModelStore: the same store, to which the parameters of a second model are added, which does
// not train. Their names get a prefix, since two models may have the same ones, and their units
// come after those of the first. It is for adding alone: what was added is used by its id in the
// store itself, which outlives this.
#pragma once

#include <string>

#include "model/pass/param.h"

namespace ds {

// Names of a teacher's parameters begin with it.
inline constexpr std::string_view kTeacherPrefix = "teacher.";

class SecondModelStore final : public ParameterStore {
 public:
  // `first_unit`: of the second model's units, the one that becomes its unit 0.
  SecondModelStore(ParameterStore& store, std::string prefix, int first_unit)
      : store_(store), prefix_(std::move(prefix)), first_unit_(first_unit) {}

  ParamId add(ParamSpec spec) override {
    spec.name = prefix_ + spec.name;
    spec.unit += first_unit_;
    spec.trains = false;
    spec.packs = false;
    spec.second_model = true;
    return store_.add(std::move(spec));
  }
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  void seal() override { throw InternalError("seal: two models share the store"); }
  Lease acquire(ParamId id) override { return store_.acquire(id); }
  GradSlot grad_slot(ParamId id) override { return store_.grad_slot(id); }
  void grad_ready(ParamId id) override { store_.grad_ready(id); }

 private:
  ParameterStore& store_;
  const std::string prefix_;
  const int first_unit_;
};

}  // namespace ds
