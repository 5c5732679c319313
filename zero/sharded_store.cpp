#include "zero/sharded_store.h"

#include <algorithm>

#include "core/values/index.h"
#include "zero/zenflow/zenflow_state_store.h"

namespace ds {

ShardedStore::ShardedStore(ZeroOptions options, Mesh& mesh, StoreStreams streams,
                           MemoryResource& memory, const OffloadPlaces& offload)
    : options_(std::move(options)),
      mesh_(mesh),
      streams_(streams),
      offload_(offload.state),
      slots_(memory, streams_),
      offloaded_(options_.policy.params.tier == Tier::kDevice
                     ? nullptr
                     : std::make_unique<OffloadedWeights>(options_.offload, offload.weights,
                                                          streams, slots_)) {
  const std::string_view why_not = options_.why_no_peer_thread();
  DS_CHECK(streams_.thread == nullptr || why_not.empty(),
           "parameter store: a thread talks to peers, and {}", why_not);
}

ShardedStore::~ShardedStore() {
  if (streams_.thread != nullptr) streams_.thread->abandon();
}

ParamId ShardedStore::add(ParamSpec spec) {
  DS_CHECK(!is_sealed(), "parameter store: {} added after seal()", spec.name);
  for (const Param& other : params_) {
    DS_CHECK(other.spec.name != spec.name, "parameter store: {} was added before", spec.name);
  }
  params_.push_back({.spec = marked(std::move(spec))});
  return static_cast<ParamId>(params_.size()) - 1;
}

ParamSpec ShardedStore::marked(ParamSpec spec) const {
  if (options_.frozen.contains(spec.name)) spec.trains = false;
  return spec;
}

void ShardedStore::know_model(std::vector<ParamSpec> all) {
  for (ParamSpec& spec : all) model_.push_back(marked(std::move(spec)));
}

void ShardedStore::expect_uses(ParamId id, int uses) {
  DS_CHECK(!is_sealed() && uses >= 1, "parameter store: {} uses of parameter {}", uses, id);
  (void)param(id);
  nth(params_, id).uses = uses;
}

const ShardedStore::Param& ShardedStore::param(ParamId id) const {
  DS_CHECK(id >= 0 && id < count(), "parameter store: parameter {} of {}", id, count());
  return nth(params_, id);
}

void ShardedStore::place_params() {
  if (options_.optimizer == nullptr) return;
  const std::vector<ParamSpec> specs = model_specs();
  std::vector<ParamFacts> facts;
  for (const ParamSpec& spec : specs) {
    facts.push_back({.name = spec.name, .shape = spec.shape});
  }
  const std::vector<ParamPlace> all = options_.optimizer->place(facts);
  for (ParamId id = 0; id < count(); ++id) places_.push_back(nth(all, index_in_model(id)));
  if (model_.empty()) return;
  for (const ParamPlace& place : all) model_kinds_.push_back(place.kind);
}

std::vector<ParamSpec> ShardedStore::model_specs() const {
  if (!model_.empty()) return model_;
  std::vector<ParamSpec> specs;
  for (const Param& param : params_) specs.push_back(param.spec);
  return specs;
}

size_t ShardedStore::index_in_model(ParamId id) const {
  const std::string& name = param(id).spec.name;
  if (model_.empty()) return to_size(id);
  const auto found = std::ranges::find(model_, name, &ParamSpec::name);
  DS_CHECK(found != model_.end(), "parameter store: {} is none of the model's parameters", name);
  return to_size(found - model_.begin());
}

std::vector<std::vector<std::string>> ShardedStore::model_slot_names() const {
  std::vector<std::vector<std::string>> names;
  if (model_.empty()) {
    for (ParamId id = 0; id < count(); ++id) names.push_back(slot_names(id));
    return names;
  }
  for (size_t i = 0; i < model_kinds_.size(); ++i) {
    auto& of_param = names.emplace_back();
    if (!model_[i].trains) continue;
    for (const SlotSpec& slot : options_.optimizer->slots_of(model_kinds_[i])) {
      of_param.push_back(slot.name);
    }
  }
  return names;
}

void ShardedStore::seal() {
  DS_CHECK(!params_.empty(), "parameter store: sealed without parameters");
  place_params();
  std::vector<GroupKey> keys;  // in the order in which the model first names them
  std::vector<std::vector<ShardGroup::Param>> members;
  for (ParamId id = 0; id < count(); ++id) {
    Param& param = nth(params_, id);
    // An optimizer has no say in what does not train.
    const bool is_placed = !places_.empty() && param.spec.trains;
    const ParamPlace place = is_placed ? nth(places_, id) : ParamPlace{};
    GroupKey key = group_key(param.spec, options_);
    key.kind = place.kind;
    key.rows = touched_rows(param.spec, param.uses, key, options_, mesh_.group(key.shard).size());
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
  if (options_.offloads_state() && offload_.host != nullptr) {
    host_scalars_.emplace(1, *offload_.host);
    if (options_.update_ahead) expected_scalars_.emplace(1, *offload_.host);
  }
  const GroupPlace place{.mesh = mesh_,
                         .streams = streams_,
                         .slots = slots_,
                         .offloaded = offloaded_.get(),
                         .state = offload_};
  for (size_t g = 0; g < keys.size(); ++g) {
    ShardGroup& group = *groups_.emplace_back(std::make_unique<ShardGroup>(
        options_, keys[g], std::move(members[g]), place, fmt::format("{}", g)));
    first_bucket_.push_back(narrow<int>(buckets_.size()));
    const int buckets = narrow<int>(group.layout().buckets().size());
    for (int b = 0; b < buckets; ++b) buckets_.push_back({.group = &group, .bucket = b});
  }
  if (offloaded_ != nullptr) offloaded_->seal();
}

int ShardedStore::bucket_of(const Param& param) const {
  return nth(first_bucket_, param.group) + group_of(param).layout().bucket_of(param.index);
}

Lease ShardedStore::acquire(ParamId id) {
  const Param& wanted = param(id);
  DS_CHECK(is_sealed(), "parameter store: {} is acquired before seal()", wanted.spec.name);
  ShardGroup& group = group_of(wanted);
  const int bucket = bucket_of(wanted);
  BucketPlace& place = nth(buckets_, bucket);
  if (!group.is_gathered_on_use(place.bucket)) return {group.weight(wanted.index), nullptr};
  if (place.leases++ == 0) on_event({.kind = GatherEvent::Kind::kAcquire, .bucket = bucket});
  return {group.weight(wanted.index), [this, bucket] { release_lease(bucket); }};
}

void ShardedStore::release_lease(int bucket) {
  if (--nth(buckets_, bucket).leases == 0) {
    on_event({.kind = GatherEvent::Kind::kIdle, .bucket = bucket});
  }
}

void ShardedStore::fetch(int bucket) {
  const BucketPlace& place = nth(buckets_, bucket);
  place.group->fetch(place.bucket);
}

void ShardedStore::gather(int bucket) {
  const BucketPlace& place = nth(buckets_, bucket);
  place.group->gather(place.bucket);
}

void ShardedStore::release(int bucket) {
  const BucketPlace& place = nth(buckets_, bucket);
  place.group->release(place.bucket);
}

void ShardedStore::on_event(GatherEvent event) {
  const bool in_micro_step = micro_steps_.open > 0;
  const bool planned = in_micro_step && !plan_.events.empty();
  if (!planned) {
    if (in_micro_step) recorded_.push_back(event);
    event.kind == GatherEvent::Kind::kAcquire ? gather(event.bucket) : release(event.bucket);
    return;
  }
  DS_CHECK(next_event_ < plan_.events.size() && plan_.events[next_event_] == event,
           "gather plan: event {} on bucket {} is not what the dry run did", next_event_,
           event.bucket);
  const GatherAction& action = plan_.actions[next_event_++];
  for (const int b : action.release) release(b);
  for (const int b : action.fetch) fetch(b);
  for (const int b : action.gather) gather(b);
}

GradReducer& ShardedStore::grads_of(const Param& param) const {
  DS_CHECK(param.spec.trains, "parameter store: {} does not train, and has no gradient",
           param.spec.name);
  return group_of(param).grads();
}

GradSlot ShardedStore::grad_slot(ParamId id) {
  const Param& of = param(id);
  return grads_of(of).slot(of.index, of.spec.shape);
}

void ShardedStore::grad_ready(ParamId id) {
  const Param& of = param(id);
  grads_of(of).ready(of.index);
}

void ShardedStore::rows_touched(ParamId id, const Tensor& order) {
  const Param& of = param(id);
  grads_of(of).rows_touched(of.index, order);
}

void ShardedStore::begin_step(GradientsOf gradients, int64_t step) {
  micro_steps_.done = 0;
  for (const auto& group : training()) group->begin_step(gradients, step);
}

void ShardedStore::expect(const ExpectedUpdate& update) {
  DS_CHECK(updates_ahead() && options_.optimizer != nullptr,
           "parameter store: an update is expected, and none is made ahead");
  // Work ahead for a step that was not ended may still be under way, with the expected scalars.
  for (const auto& group : training()) {
    group->state().end_ahead(SpeculativeUpdate::Verdict::kUndo);
  }
  expected_scalars_->upload(update.inputs, 0);
  expected_scalars_->write({.grad_scale = update.grad_scale});
  for (const auto& group : training()) {
    group->begin_ahead(*options_.optimizer, places_, *expected_scalars_);
  }
}

void ShardedStore::begin_micro_step() {
  const auto shards_weights = [](const auto& group) { return group->shards_weights(); };
  if (micro_steps_.open > 0 &&
      (options_.reduce == Reduce::kEachMicroStep || std::ranges::any_of(groups_, shards_weights))) {
    throw Unsupported(
        "zero: a second micro-batch begins before the first is done, as in a pipeline; that needs "
        "stage 0 or 1, with gradients reduced at the end of the step");
  }
  if (micro_steps_.open++ > 0) return;
  next_event_ = 0;
  recorded_.clear();
  slots_.begin(BucketRound::kMicroStep);
  for (const auto& group : groups_) group->begin_micro_step();
}

void ShardedStore::end_micro_step() {
  streams_.settle();
  for (const auto& group : training()) group->grads().end_micro_step();
  ++micro_steps_.done;
  if (--micro_steps_.open > 0) return;
  DS_CHECK(plan_.events.empty() || next_event_ == plan_.events.size(),
           "gather plan: the micro-step made {} of the dry run's {} events", next_event_,
           plan_.events.size());
  for (const auto& group : groups_) group->end_micro_step();
  slots_.end();
}

void ShardedStore::repeat_micro_step() {
  DS_CHECK(micro_steps_.open == 0, "parameter store: a micro-step is repeated inside of another");
  for (const auto& group : training()) group->grads().repeat_micro_step();
  ++micro_steps_.done;
}

void ShardedStore::forget_events() {
  for (const auto& group : groups_) group->forget_events();
  slots_.forget_events();
}

Tensor ShardedStore::summed_gradient(ParamId id) {
  const Param& of = param(id);
  if (options_.reduce == Reduce::kEachMicroStep) return ParameterStore::summed_gradient(id);
  return grads_of(of).summed(of.index, of.spec.shape);
}

void ShardedStore::reduce_gradients() {
  for (const auto& group : training()) group->grads().end_step();
}

void ShardedStore::add_sum_of_squares(const Tensor& total) {
  for (const auto& group : training()) group->add_sum_of_squares(total);
}

void ShardedStore::update(const Optimizer& optimizer, const StepScalars& scalars,
                          const UpdateNumber& number) {
  for (const auto& group : training()) group->end_step(scalars);
  if (host_scalars_) {
    settle_ahead(scalars);
    offload_.host->wait(streams_.compute.mark());  // has waited for them, and so has its clock
    // On the host nothing is moved for a step that changes nothing.
    if (host_scalars_->host_outcome().skip != 0) return;
  }
  for (const auto& group : training()) {
    group->update(optimizer, places_, scalars, host_scalars_ ? &*host_scalars_ : nullptr, number);
  }
}

// Copies the scalars to the host, and says whether what was made ahead is the update that they ask
// for.
void ShardedStore::settle_ahead(const StepScalars& scalars) {
  if (!updates_ahead()) return scalars.copy_to(*host_scalars_);
  // The thread that updates goes on while this one waits for the norm.
  for (const auto& group : training()) group->state().hand_over_ahead();
  scalars.copy_to(*host_scalars_);
  const auto verdict =
      is_as_expected() ? SpeculativeUpdate::Verdict::kKeep : SpeculativeUpdate::Verdict::kUndo;
  for (const auto& group : training()) group->state().end_ahead(verdict);
}

bool ShardedStore::is_as_expected() const {
  const StepOutcome is = host_scalars_->host_outcome(), was = expected_scalars_->host_outcome();
  const StepInputs now = host_scalars_->host_inputs(), then = expected_scalars_->host_inputs();
  return is.skip == 0 && is.grad_scale == was.grad_scale && now.lr == then.lr &&
         now.beta1 == then.beta1 && now.beta2 == then.beta2 &&
         now.correction1 == then.correction1 && now.correction2 == then.correction2 &&
         now.step == then.step;
}

void ShardedStore::publish() {
  for (const auto& group : training()) group->publish();
}

void ShardedStore::initialize(uint64_t seed) {
  for (const auto& group : groups_) group->initialize(seed);
}

void ShardedStore::visit_owned(Visit what, const std::function<void(OwnedPart&)>& visitor) {
  try {
    for (const auto& group : groups_) group->visit(what, visitor);
  } catch (const SwapFault&) {
    has_swap_failed_ = true;
    throw;
  }
}

void ShardedStore::visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor) {
  for (const auto& group : groups_) group->visit_auxiliary(what, visitor);
}

std::vector<std::vector<ShardField>> ShardedStore::owned_fields(Visit what) const {
  std::vector<std::vector<ShardField>> fields;
  for (const auto& group : groups_) group->append_fields(what, fields);
  return fields;
}

std::vector<std::string> ShardedStore::extra_names() const {
  std::vector<std::string> names;
  if (options_.optimizer != nullptr) names = options_.optimizer->extra_names();
  if (options_.zenflow) names.emplace_back(ZenflowStateStore::kColumnsState);
  return names;
}

std::vector<std::string> ShardedStore::slot_names(ParamId id) const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : group_of(param(id)).slot_specs()) names.push_back(slot.name);
  return names;
}

void ShardedStore::restore_from_owned() {
  for (const auto& group : groups_) group->restore_from_owned();
}

std::vector<bool> ShardedStore::offloaded_buckets() const {
  if (offloaded_ == nullptr) return {};
  std::vector<bool> offloaded;
  for (const BucketPlace& place : buckets_) {
    offloaded.push_back(place.group->offloads_weights(place.bucket));
  }
  return offloaded;
}

std::vector<bool> ShardedStore::coded_buckets() const {
  std::vector<bool> coded;
  for (const BucketPlace& place : buckets_) coded.push_back(place.group->is_coded());
  return coded;
}

std::vector<int64_t> ShardedStore::bucket_numel() const {
  std::vector<int64_t> numel;
  for (const BucketPlace& place : buckets_) {
    numel.push_back(nth(place.group->layout().buckets(), place.bucket).numel);
  }
  return numel;
}

}  // namespace ds
