#include "zero/state_visitor.h"

#include <algorithm>
#include <tuple>

#include "zero/zenflow/zenflow_state_store.h"

namespace ds {

void StateVisitor::initialize(uint64_t seed) {
  for (const auto& group : parts_.groups) {
    group->key().second_model ? group->restore_from_owned() : group->initialize(seed);
  }
}

void StateVisitor::visit_owned(Visit what, const std::function<void(OwnedPart&)>& visitor) {
  visit_groups(
      what, [](const ShardGroup&) { return true; }, visitor);
}

void StateVisitor::visit_frozen(const std::function<void(OwnedPart&)>& visitor) {
  visit_groups(
      Visit::kRestore,
      [](const ShardGroup& group) { return !group.trains() && !group.key().second_model; },
      visitor);
}

void StateVisitor::visit_second_model(const std::function<void(OwnedPart&)>& visitor) {
  visit_groups(
      Visit::kRestore, [](const ShardGroup& group) { return group.key().second_model; }, visitor);
}

void StateVisitor::visit_groups(Visit what, const std::function<bool(const ShardGroup&)>& wanted,
                                const std::function<void(OwnedPart&)>& visitor) {
  try {
    for (const auto& group : parts_.groups) {
      if (wanted(*group)) group->visit(what, visitor);
    }
  } catch (const SwapFault&) {
    has_swap_failed_ = true;
    throw;
  }
}

void StateVisitor::visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor) {
  for (const auto& group : parts_.groups) group->visit_auxiliary(what, visitor);
}

void StateVisitor::restore_from_owned() {
  for (const auto& group : parts_.groups) group->restore_from_owned();
}

std::vector<std::vector<ShardField>> StateVisitor::owned_fields(Visit what) const {
  std::vector<std::vector<ShardField>> fields;
  for (const auto& group : parts_.groups) group->append_fields(what, fields);
  return fields;
}

std::vector<std::string> StateVisitor::extra_names() const {
  std::vector<std::string> names;
  const ZeroOptions& options = parts_.options;
  if (options.state.optimizer != nullptr) names = options.state.optimizer->extra_names();
  if (options.state.zenflow) names.emplace_back(ZenflowStateStore::kColumnsState);
  return names;
}

std::vector<std::string> StateVisitor::slot_names(ParamId id) const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : parts_.group_of(parts_.param(id)).slot_specs()) {
    names.push_back(slot.name);
  }
  return names;
}

std::vector<ParamSpec> StateVisitor::model_specs() const {
  if (!parts_.model.empty()) return parts_.model;
  std::vector<ParamSpec> specs;
  for (const StoredParam& param : parts_.params) {
    if (!param.spec.second_model) specs.push_back(param.spec);
  }
  return specs;
}

size_t StateVisitor::index_in_model(ParamId id) const {
  const auto& [name, is_second] =
      std::tie(parts_.param(id).spec.name, parts_.param(id).spec.second_model);
  if (is_second) {  // they are behind all others
    const auto first = std::ranges::find_if(
        parts_.params, [](const StoredParam& param) { return param.spec.second_model; });
    return to_size(id - (first - parts_.params.begin()));
  }
  if (parts_.model.empty()) return to_size(id);
  const auto found = std::ranges::find(parts_.model, name, &ParamSpec::name);
  DS_CHECK(found != parts_.model.end(), "parameter store: {} is none of the model's parameters",
           name);
  return to_size(found - parts_.model.begin());
}

std::vector<std::vector<std::string>> StateVisitor::model_slot_names() const {
  std::vector<std::vector<std::string>> names;
  if (parts_.model.empty()) {
    const auto count = narrow<ParamId>(parts_.params.size());
    for (ParamId id = 0; id < count; ++id) {
      if (!parts_.param(id).spec.second_model) names.push_back(slot_names(id));
    }
    return names;
  }
  for (size_t i = 0; i < parts_.model_kinds.size(); ++i) {
    auto& of_param = names.emplace_back();
    if (!parts_.model[i].trains) continue;
    for (const SlotSpec& slot : parts_.options.state.optimizer->slots_of(parts_.model_kinds[i])) {
      of_param.push_back(slot.name);
    }
  }
  return names;
}

}  // namespace ds
