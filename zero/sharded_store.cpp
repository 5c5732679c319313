#include "zero/sharded_store.h"

#include <algorithm>

#include "core/values/index.h"

namespace ds {

ShardedStore::ShardedStore(ZeroOptions options, Mesh& mesh, StoreStreams streams,
                           MemoryResource& memory, const OffloadPlaces& offload)
    : mesh_(mesh),
      streams_(streams),
      offload_(offload.state),
      slots_(memory, streams_),
      parts_{.options = std::move(options)},
      gathers_(slots_),
      step_(parts_, gathers_, streams_, offload_.host),
      state_(parts_) {
  const ZeroOptions& chosen = parts_.options;
  if (chosen.placement.policy.params.tier != Tier::kDevice) {
    parts_.offloaded = std::make_unique<OffloadedWeights>(chosen.placement.weights, offload.weights,
                                                          streams_, slots_);
  }
  const std::string_view why_not = chosen.why_no_peer_thread();
  DS_CHECK(streams_.thread == nullptr || why_not.empty(),
           "parameter store: a thread talks to peers, and {}", why_not);
}

ShardedStore::~ShardedStore() {
  if (streams_.thread != nullptr) streams_.thread->abandon();
  parts_.groups.clear();  // whose state stores may be at work ahead, with scalars of the step
}

ParamId ShardedStore::add(ParamSpec spec) {
  DS_CHECK(!is_sealed(), "parameter store: {} added after seal()", spec.name);
  for (const StoredParam& other : parts_.params) {
    DS_CHECK(other.spec.name != spec.name, "parameter store: {} was added before", spec.name);
    DS_CHECK(spec.second_model || !other.spec.second_model,
             "parameter store: {} is added behind those of a second model", spec.name);
  }
  parts_.params.push_back({.spec = marked(std::move(spec))});
  return static_cast<ParamId>(parts_.params.size()) - 1;
}

ParamSpec ShardedStore::marked(ParamSpec spec) const {
  if (parts_.options.layout.frozen.contains(spec.name)) spec.trains = false;
  return spec;
}

void ShardedStore::know_model(std::vector<ParamSpec> all) {
  for (ParamSpec& spec : all) parts_.model.push_back(marked(std::move(spec)));
}

void ShardedStore::expect_uses(ParamId id, int uses) {
  DS_CHECK(!is_sealed() && uses >= 1, "parameter store: {} uses of parameter {}", uses, id);
  (void)parts_.param(id);
  nth(parts_.params, id).uses = uses;
}

void ShardedStore::place_params() {
  if (parts_.options.state.optimizer == nullptr) return;
  const std::vector<ParamSpec> specs = state_.model_specs();
  std::vector<ParamFacts> facts;
  for (const ParamSpec& spec : specs) {
    facts.push_back({.name = spec.name, .shape = spec.shape});
  }
  const std::vector<ParamPlace> all = parts_.options.state.optimizer->place(facts);
  for (ParamId id = 0; id < count(); ++id) {
    const bool is_placed = !spec(id).second_model;
    parts_.places.push_back(is_placed ? nth(all, state_.index_in_model(id)) : ParamPlace{});
  }
  if (parts_.model.empty()) return;
  for (const ParamPlace& place : all) parts_.model_kinds.push_back(place.kind);
}

void ShardedStore::seal() {
  DS_CHECK(!parts_.params.empty(), "parameter store: sealed without parameters");
  place_params();
  std::vector<GroupKey> keys;  // in the order in which the model first names them
  std::vector<std::vector<ShardGroup::Param>> members;
  for (ParamId id = 0; id < count(); ++id) {
    StoredParam& param = nth(parts_.params, id);
    // An optimizer has no say in what does not train.
    const bool is_placed = !parts_.places.empty() && param.spec.trains;
    const ParamPlace place = is_placed ? nth(parts_.places, id) : ParamPlace{};
    GroupKey key = group_key(param.spec, parts_.options);
    key.kind = place.kind;
    key.rows =
        touched_rows(param.spec, param.uses, key, parts_.options, mesh_.group(key.shard).size());
    const auto known = std::ranges::find(keys, key);
    param.group = narrow<int>(known - keys.begin());
    if (known == keys.end()) {
      keys.push_back(key);
      members.emplace_back();
    }
    auto& group = nth(members, param.group);
    param.index = narrow<int>(group.size());
    group.push_back({.id = id, .spec = &param.spec, .uses = param.uses, .options = place.group});
  }
  step_.prepare();
  const GroupPlace place{.mesh = mesh_,
                         .streams = streams_,
                         .slots = slots_,
                         .offloaded = parts_.offloaded.get(),
                         .state = offload_};
  for (size_t g = 0; g < keys.size(); ++g) {
    ShardGroup& group = *parts_.groups.emplace_back(std::make_unique<ShardGroup>(
        parts_.options, keys[g], std::move(members[g]), place, fmt::format("{}", g)));
    gathers_.add(group);
  }
  if (parts_.offloaded != nullptr) parts_.offloaded->seal();
}

Lease ShardedStore::acquire(ParamId id) {
  const StoredParam& wanted = parts_.param(id);
  DS_CHECK(is_sealed(), "parameter store: {} is acquired before seal()", wanted.spec.name);
  ShardGroup& group = parts_.group_of(wanted);
  const int of_group = group.layout().bucket_of(wanted.index);
  if (!group.is_gathered_on_use(of_group)) return {group.weight(wanted.index), nullptr};
  const int bucket = gathers_.bucket(wanted.group, of_group);
  gathers_.acquire(bucket);
  return {group.weight(wanted.index), [this, bucket] { gathers_.release(bucket); }};
}

GradientSink& ShardedStore::grads_of(const StoredParam& param) const {
  DS_CHECK(param.spec.trains, "parameter store: {} does not train, and has no gradient",
           param.spec.name);
  return parts_.group_of(param).grads();
}

GradSlot ShardedStore::grad_slot(ParamId id) {
  const StoredParam& of = parts_.param(id);
  return grads_of(of).slot(of.index, of.spec.shape);
}

void ShardedStore::grad_ready(ParamId id) {
  const StoredParam& of = parts_.param(id);
  grads_of(of).ready(of.index);
}

void ShardedStore::rows_touched(ParamId id, const Tensor& order) {
  const StoredParam& of = parts_.param(id);
  grads_of(of).rows_touched(of.index, order);
}

Tensor ShardedStore::summed_gradient(ParamId id) {
  const StoredParam& of = parts_.param(id);
  if (parts_.options.wire.reduce == Reduce::kEachMicroStep)
    return ParameterStore::summed_gradient(id);
  return grads_of(of).summed(of.index, of.spec.shape);
}

}  // namespace ds
