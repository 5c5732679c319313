// StateVisitor: weights and optimizer state of a sharded store as checkpoints, exports and dumps
// see them: parts one by one, each where it lies, and the names of what they hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zero/store_parts.h"

namespace ds {

class StateVisitor {
 public:
  // The parts must outlive it.
  explicit StateVisitor(const StoreParts& parts) : parts_(parts) {}

  // Weights as their initialisers say, equal at every rank count; those of a second model stay.
  // Every rank sees all of them.
  void initialize(uint64_t seed);
  // One part after the other, in the same order every time. A part's tensors may be used during
  // its visit only: state need not fit into memory at once. What the visitor writes stays.
  void visit_owned(Visit what, const std::function<void(OwnedPart&)>& visitor);
  // The same of what does not train of the model, or of what a second model has, to restore it.
  void visit_frozen(const std::function<void(OwnedPart&)>& visitor);
  void visit_second_model(const std::function<void(OwnedPart&)>& visitor);
  // Whether a visit has failed because of what is swapped, and not of the visitor.
  bool has_swap_failed() const { return has_swap_failed_; }
  // Visits the optimizer's state that is no number per weight in the same way.
  void visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor);
  // After a visit that wrote: low-precision copies and whole weights follow. With whole state
  // (stage 0) the slices of master and slots travel to every rank.
  void restore_from_owned();

  // Which elements the parts hold, in the order of the visit: known without opening them.
  std::vector<std::vector<ShardField>> owned_fields(Visit what) const;
  // That auxiliary may have, the optimizer's and others.
  std::vector<std::string> extra_names() const;
  // Returns the names of the slots that are kept of a parameter.
  std::vector<std::string> slot_names(ParamId id) const;
  // All parameters of the model that trains: those that are here, where nothing else is known. Of
  // each what slot_names() are, and of one that is here which of them it is. Those of a second
  // model are none of them, and each is one of that model's.
  std::vector<ParamSpec> model_specs() const;
  std::vector<std::vector<std::string>> model_slot_names() const;
  size_t index_in_model(ParamId id) const;

 private:
  void visit_groups(Visit what, const std::function<bool(const ShardGroup&)>& wanted,
                    const std::function<void(OwnedPart&)>& visitor);

  const StoreParts& parts_;
  bool has_swap_failed_ = false;
};

}  // namespace ds
