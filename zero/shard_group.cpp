#include "zero/shard_group.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/device/host_copy.h"
#include "core/status/failpoint.h"
#include "kernels/elementwise/elementwise.h"
#include "model/pass/initializer.h"
#include "zero/zenflow/zenflow_state_store.h"

namespace ds {
namespace {

BucketLayout layout_of(std::span<const ShardGroup::Param> params, const ZeroOptions& options,
                       const GroupKey& key, int group_size) {
  const ZeroPlusPlus& plus_plus = options.placement.policy.plus_plus;
  const bool codes = group_size > 1 && !key.code &&
                     (key.trains ? plus_plus.sends_codes() : plus_plus.quantized_weights);
  std::vector<LayoutParam> list;
  for (const ShardGroup::Param& param : params) {
    list.push_back(
        {.numel = param.spec->shape.numel(), .unit = param.spec->unit, .group = param.options});
  }
  const bool whole = key.trains && options.state.optimizer != nullptr &&
                     options.state.optimizer->needs_whole_parameters(key.kind);
  return BucketLayout::build(
      list, {.bucket_numel = options.layout.bucket_numel,
             .persistence_numel = key.code ? 0 : options.layout.persistence_numel,
             .group_size = group_size,
             .slicing = whole ? Slicing::kWholeParameters : Slicing::kElements,
             .most_per_run = codes ? std::optional(kMostPerScale) : std::nullopt,
             .alignment = key.code ? key.code->block : BucketLayout::kSliceAlignment});
}

// Codes travel as they are, and have no copies near.
WeightGatherOptions gather_options(const ZeroPlusPlus& plus_plus, const GroupKey& key) {
  if (key.code) return {};
  return {.quantized = plus_plus.quantized_weights, .secondary = plus_plus.secondary_weights};
}

// Who is near, of those over whom a group's state is cut.
Communicator& near_of(const ZeroOptions& options, const GroupKey& key, Mesh& mesh) {
  const ZeroPolicy& policy = options.placement.policy;
  if (!policy.plus_plus.is_on()) return mesh.group(key.shard);
  if (policy.params.sharding != Sharding::kSharded) {
    throw Unsupported("zero: ZeRO++ (qwZ, qgZ, hpZ) works at stage 3");
  }
  const bool splits = policy.plus_plus.secondary_weights || policy.plus_plus.quantized_gradients;
  if (splits && key.shard != Axis::kData) {
    throw Unsupported(
        fmt::format("zero: hpZ and qgZ cut the data axis into neighbours, and parameters are "
                    "sharded over {}",
                    to_string(key.shard)));
  }
  if (policy.plus_plus.secondary_weights && policy.params.tier != Tier::kDevice) {
    throw Unsupported(
        "zero: hpZ keeps a second copy of weights on the device; it excludes "
        "offload_param");
  }
  return splits ? mesh.group(Axis::kShard) : mesh.group(key.shard);
}

// Norms or products of whole parameters are those of uncut slices, with their bits.
bool sees_parameters(const Optimizer* optimizer, const GroupKey& key) {
  return key.trains && optimizer != nullptr &&
         (optimizer->needs_whole_parameters(key.kind) || optimizer->sums_per_param() > 0);
}

std::vector<SlotSpec> slots_of(const ZeroOptions& options, const GroupKey& key) {
  if (!key.trains) return {};
  std::vector<SlotSpec> slots = options.state.optimizer != nullptr
                                    ? options.state.optimizer->slots_of(key.kind)
                                    : options.state.slots;
  if (options.state.zenflow)
    std::ranges::copy(ZenflowStateStore::slots(*options.state.zenflow), std::back_inserter(slots));
  return slots;
}

bool is_first_of_all(const GroupKey& key, const Mesh& mesh) {
  const auto first = [&](Axis axis) { return mesh.coordinate(axis) == 0; };
  return std::ranges::all_of(key.summed, first) && std::ranges::all_of(key.repeated, first);
}

}  // namespace

GroupKey group_key(const ParamSpec& spec, const ZeroOptions& options) {
  const ZeroPolicy& policy = options.placement.policy;
  GroupKey key{.dtype = spec.dtype,
               .shard = policy.shard_over,
               .summed = spec.replicas.summed,
               .repeated = spec.replicas.same,
               .trains = spec.trains,
               .second_model = spec.second_model};
  const std::vector<ModuleKind>& modules = options.wire.modules;
  const bool is_named = modules.empty() || std::ranges::find(modules, spec.module) != modules.end();
  if (spec.trains && is_named) {
    key.wire = options.wire.dtype;
  }
  if (!spec.trains && spec.packs) key.code = options.layout.base_code;
  if (spec.group == ParamGroup::kExpert) {
    if (policy.shard_over != Axis::kData) {
      throw Unsupported(
          fmt::format("zero: {} is an expert's, and experts are sharded over expert_data, not {}",
                      spec.name, to_string(policy.shard_over)));
    }
    key.shard = Axis::kExpertData;
  } else if (policy.shard_over == Axis::kShard) {
    key.summed.push_back(Axis::kReplica);
  }
  return key;
}

// Not of a table that is the head's weight, too: that use touches every row.
TouchedRows touched_rows(const ParamSpec& spec, int uses, const GroupKey& key,
                         const ZeroOptions& options, int ranks) {
  const bool may = key.trains && options.wire.sparse_tokens > 0 && spec.looked_up && uses == 1 &&
                   ranks > 1 && options.placement.policy.state.sharding == Sharding::kWhole &&
                   options.wire.reduce == Reduce::kEachMicroStep && key.summed.empty() &&
                   spec.cut.is_whole();
  if (!may) return {};
  const TouchedRows touched{.columns = spec.shape[1],
                            .at_most = std::min(options.wire.sparse_tokens, spec.shape[0])};
  const DType sent = key.wire.value_or(spec.dtype);
  const TableTraffic traffic{.rows = spec.shape[0],
                             .ranks = ranks,
                             .micro_steps = options.wire.micro_steps,
                             .sent_bytes = size_of(sent),
                             .sum_bytes = std::min(key.wire ? size_of(sent) : sizeof(double),
                                                   size_of(options.wire.slice_dtype))};
  const bool is_less = bytes_by_rows(touched, traffic) < bytes_as_whole(touched, traffic);
  return is_less ? touched : TouchedRows{};
}

ShardGroup::ShardGroup(const ZeroOptions& options, const GroupKey& key, std::vector<Param> params,
                       const GroupPlace& place, std::string name)
    : options_(options),
      key_(key),
      slot_specs_(slots_of(options, key)),
      sees_parameters_(sees_parameters(options.state.optimizer, key)),
      params_(std::move(params)),
      comm_(place.mesh.group(key.shard)),
      answers_(is_first_of_all(key, place.mesh)),
      streams_(place.streams),
      slots_(place.slots),
      host_(place.state.host),
      offloaded_(place.offloaded),
      layout_(layout_of(params_, options, key, comm_.size())),
      gather_(gather_options(options.placement.policy.plus_plus, key), comm_,
              near_of(options, key, place.mesh), streams_, slots_),
      weights_(layout_.buckets().size()) {
  Mesh& mesh = place.mesh;
  if (key_.trains && options.placement.policy.plus_plus.quantized_gradients && comm_.size() > 1) {
    quantized_reduce_.emplace(near_of(options, key, mesh), mesh.group(Axis::kReplica),
                              options.placement.policy.plus_plus.feedback, streams_, slots_);
    for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
      quantized_reduce_->add(fmt::format("{}/{}", name, b), layout_.slice_numel(b));
    }
  }
  const int buckets = narrow<int>(weights_.size());
  for (int b = 0; b < buckets; ++b) make_weights(b);
  if (!key_.trains) {
    make_frozen();
    return;
  }
  // State beside the device keeps sums of gradients, and state on the device reads those that are.
  if (options.offloads_state()) {
    state_ = make_state(place.state, std::move(name));
    make_gradients(key, mesh, state_.get());
  } else {
    make_gradients(key, mesh, nullptr);
    state_ = make_state(place.state, std::move(name));
  }
  make_auxiliary();
}

void ShardGroup::make_gradients(const GroupKey& key, Mesh& mesh, OptimizerStateStore* keeper) {
  std::vector<int> uses;
  for (const Param& param : params_) uses.push_back(param.uses);
  std::vector<Communicator*> summed;
  for (const Axis axis : key.summed) summed.push_back(&mesh.group(axis));
  grads_ = make_gradient_sink(
      GradOptions{.sharding = options_.placement.policy.grads.sharding,
                  .state = options_.placement.policy.state.sharding,
                  .dtype = key.dtype,
                  .slice_dtype = options_.wire.slice_dtype,
                  .wire_dtype = key.wire,
                  .reduce = options_.wire.reduce,
                  .micro_steps = options_.wire.micro_steps,
                  .rows = key.rows},
      layout_, std::move(uses),
      GradPlace{.peers = {.shard = comm_,
                          .summed = std::move(summed),
                          .quantized = quantized_reduce_ ? &*quantized_reduce_ : nullptr},
                .streams = streams_,
                .slots = slots_,
                .keeper = keeper});
}

void ShardGroup::make_auxiliary() {
  if (options_.state.optimizer == nullptr) return;
  std::vector<AuxiliarySpec> specs =
      options_.state.optimizer->auxiliary_of(state_->resident(), comm_.size());
  std::ranges::copy(state_->auxiliary(), std::back_inserter(specs));
  auxiliary_ = AuxiliaryState(std::move(specs), comm_.rank(), comm_.size(), streams_.compute);
}

void ShardGroup::visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor) {
  if (what == Visit::kSave) state_->write_back(auxiliary_of_state());
  auxiliary_.visit(what, comm_.rank() == 0 && answers_, visitor);
  if (!quantized_reduce_) return;
  for (const QuantizedReduce::Kept& kept : quantized_reduce_->kept()) {
    AuxiliaryPart part{.spec = kept.spec,
                       .values = kept.values,
                       .rank = comm_.rank(),
                       .ranks = comm_.size(),
                       .stream = streams_.compute};
    visitor(part);
  }
}

bool ShardGroup::has_agreed_weights() const {
  return key_.trains && options_.state.optimizer != nullptr &&
         options_.state.optimizer->has_agreed_weights();
}

std::span<const SlotSpec> ShardGroup::slot_specs() const {
  return std::span(slot_specs_).first(slot_specs_.size() - (has_agreed_weights() ? 1 : 0));
}

Tensor ShardGroup::shown_weights(const Shard& shard) const {
  return has_agreed_weights() ? shard.slots.back() : shard.master;
}

// Each rank makes the codes of its slice alone, also where all keep all of them.
bool ShardGroup::has_whole_state() const {
  return comm_.size() == 1 ||
         (!key_.code && options_.placement.policy.state.sharding == Sharding::kWhole);
}

int64_t ShardGroup::kept_numel(int64_t weights) const {
  return key_.code ? key_.code->bytes(weights) : weights;
}

bool ShardGroup::shards_weights() const {
  return std::ranges::any_of(weights_, [](const Weights& weights) { return weights.sharded; });
}

void ShardGroup::make_weights(int bucket) {
  Weights& weights = nth(weights_, bucket);
  const Bucket& layout = nth(layout_.buckets(), bucket);
  const Placement& params = options_.placement.policy.params;
  const bool offloads = params.tier != Tier::kDevice;  // who is alone has its slices elsewhere, too
  const DType kept_dtype = key_.code ? DType::kU8 : key_.dtype;
  weights.sharded =
      params.sharding == Sharding::kSharded && !layout.persistent && (comm_.size() > 1 || offloads);
  if (weights.sharded && offloads) {
    weights.offloaded =
        offloaded_->add(kept_numel(layout_.slice_numel(bucket)), kept_dtype, weight_maker());
    return;
  }
  const int64_t slices = weights.sharded ? 1 : comm_.size();
  const int64_t numel = slices * kept_numel(layout_.slice_numel(bucket));
  const MemoryScope scope(streams_.compute, slots_.memory());
  weights.kept = Tensor::zeros({numel}, kept_dtype, streams_.compute, MemoryTag::kParameters);
  if (weights.sharded) gather_.add(bucket, numel, kept_dtype);
}

WeightMaker ShardGroup::weight_maker() const {
  if (!key_.trains) return WeightMaker::kNobody;
  if (!options_.offloads_state()) return WeightMaker::kDevice;
  return options_.state.offload_ratio < 1 ? WeightMaker::kBoth : WeightMaker::kHost;
}

std::vector<ShardField> ShardGroup::fields_of(int bucket, int rank) const {
  std::vector<ShardField> fields = layout_.fields(bucket, rank);
  for (ShardField& field : fields) field.param = nth(params_, field.param).id;
  return fields;
}

void ShardGroup::fetch(int bucket) { offloaded_->fetch(nth(weights_, bucket).offloaded); }

void ShardGroup::gather(int bucket) {
  Weights& weights = nth(weights_, bucket);
  const bool offloaded = offloads_weights(bucket);
  Tensor slice = offloaded ? offloaded_->take(weights.offloaded) : weights.kept;
  Tensor& whole = key_.code ? weights.codes : weights.gathered;
  if (comm_.size() == 1 || !weights.sharded) {
    whole = std::move(slice);
  } else {
    whole = slots_.take(comm_.size() * slice.numel(), slice.dtype(), streams_.peers);
    gather_.gather(bucket, slice, whole);
    if (offloaded) slots_.give_back(slice, streams_.peers);
  }
  weights.gathered_at = streams_.mark_peers();
}

void ShardGroup::release(int bucket) {
  gather_.release(bucket);
  Weights& weights = nth(weights_, bucket);
  if (weights.codes.defined()) give_back_codes(weights, streams_.peers);  // nobody has used them
  if (weights.gathered.defined()) slots_.give_back(weights.gathered, streams_.compute);
}

// Codes that this rank keeps stay where they are.
void ShardGroup::give_back_codes(Weights& weights, Stream& by) {
  if (weights.sharded) slots_.give_back(weights.codes, by);
  weights.codes = Tensor();
}

// Makes weights of what has arrived, slice by slice.
void ShardGroup::unpack(int bucket) {
  Weights& weights = nth(weights_, bucket);
  if (!weights.codes.defined()) return;
  const int64_t slice = layout_.slice_numel(bucket), bytes = key_.code->bytes(slice);
  weights.gathered = slots_.take(comm_.size() * slice, key_.dtype, streams_.compute);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    Tensor part = weights.gathered.narrow(rank * slice, slice);
    kernels::unpack_blocks(streams_.compute, weights.codes.narrow(rank * bytes, bytes), *key_.code,
                           part);
  }
  give_back_codes(weights, streams_.compute);
}

Tensor ShardGroup::weight(int param) {
  const int bucket = layout_.bucket_of(param);
  const Weights& weights = nth(weights_, bucket);
  const Shape& shape = nth(params_, param).spec->shape;
  const bool is_gathered = is_gathered_on_use(bucket);
  if (is_gathered) {
    streams_.compute_after(weights.gathered_at);
    gather_.unpack(bucket, weights.gathered);
    unpack(bucket);
  }
  return (is_gathered ? weights.gathered : weights.kept)
      .narrow(layout_.offset_of(param), shape.numel())
      .reshape(shape);
}

void ShardGroup::forget_events() {
  for (Weights& weights : weights_) weights.gathered_at = {};
  if (key_.trains) grads_->forget_events();
}

void ShardGroup::add_sum_of_squares(const Tensor& total) {
  if (answers_) grads_->add_sum_of_squares(total);
}

void ShardGroup::publish() {
  streams_.peers.wait(streams_.compute.mark());  // gathers of the next step too
  store_offloaded();
  if (has_whole_state()) return;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    Weights& weights = nth(weights_, b);
    if (weights.sharded) continue;
    const int64_t slice = kept_numel(layout_.slice_numel(b));
    comm_.all_gather(weights.kept.narrow(comm_.rank() * slice, slice), weights.kept,
                     streams_.peers);
  }
  streams_.compute.wait(streams_.peers.mark());
}

// Stores weights whose state is on the device. The host itself writes those that it updates.
void ShardGroup::store_offloaded() {
  if (offloaded_ == nullptr) return;
  state_->each_on_device([&](const StatePart& part, const Shard& shard) {
    if (!offloads_weights(part.bucket)) return;
    offloaded_->store(nth(weights_, part.bucket).offloaded, part.begin, shard.master);
  });
  offloaded_->end_stores();
}

void ShardGroup::begin_step(GradientsOf gradients, int64_t step) {
  grads_->begin_step(gradients);
  if (quantized_reduce_) quantized_reduce_->begin_step(step);
}

void ShardGroup::end_step(const StepScalars& scalars) {
  if (quantized_reduce_) quantized_reduce_->end_step(scalars);
}

UpdateGroup ShardGroup::update_group(std::span<const ParamPlace> places) const {
  UpdateGroup group(comm_, places);
  group.auxiliary = auxiliary_.values();
  group.rounding_seed = options_.state.rounding_seed;
  return group;
}

void ShardGroup::update(const Optimizer& optimizer, std::span<const ParamPlace> places,
                        const StepScalars& scalars, const StepScalars* host,
                        const UpdateNumber& number) {
  UpdateGroup group = update_group(places);
  group.number = number;
  state_->update({.optimizer = optimizer,
                  .group = group,
                  .compute = streams_.compute,
                  .scalars = scalars,
                  .host = host,
                  .sums = [&] { return sums_of(optimizer, group, *host); }});
}

void ShardGroup::begin_ahead(const Optimizer& optimizer, std::span<const ParamPlace> places,
                             const StepScalars& expected) {
  state_->begin_ahead([&optimizer, &expected, group = update_group(places)](OpenPart& open) {
    optimizer.step({&open.shard, 1}, expected, group, open.stream);
  });
}

// In memory of the host, those of all ranks.
Tensor ShardGroup::sums_of(const Optimizer& optimizer, const UpdateGroup& group,
                           const StepScalars& host) {
  const int64_t numel = narrow<int64_t>(group.params.size()) * optimizer.sums_per_param();
  const Tensor sums = Tensor::zeros({numel}, DType::kF64, *host_, MemoryTag::kScratch);
  state_->visit(PartAccess::kSums, [&](OpenPart& open) {
    optimizer.add_sums({&open.shard, 1}, host, group, sums, open.stream);
    DS_FAILPOINT("offload.sums_added");
  });
  if (comm_.size() == 1) return sums;
  // They pass through the device, where peers can read them.
  Stream& device = streams_.compute;
  const Shape shape{sums.numel() * comm_.size()};
  const Tensor mine = Tensor::empty(sums.shape(), DType::kF64, device, MemoryTag::kScratch);
  Tensor all = Tensor::empty(shape, DType::kF64, device, MemoryTag::kScratch);
  Tensor back = Tensor::empty(shape, DType::kF64, *host_, MemoryTag::kScratch);
  device.wait(host_->mark());
  device.copy(sums.address(), mine.address(), mine.bytes());
  comm_.all_gather(mine, all, device);
  device.copy(all.address(), back.address(), back.bytes());
  host_->wait(device.mark());
  return back;
}

void ShardGroup::initialize(uint64_t seed) {
  HostCopy through(streams_.compute);
  state_->visit(PartAccess::kFill, [&](OpenPart& open) {
    for (const ShardField& field : open.shard.fields) {
      const Tensor range = open.shard.master.narrow(field.offset, field.numel);
      through.up(range, [&](int64_t first, Tensor& part) {
        ds::initialize(*spec_of(field.param), seed, field.param_begin + first, part,
                       &streams_.compute.pool());
      });
    }
    if (has_agreed_weights()) {
      Tensor agreed = shown_weights(open.shard);
      kernels::cast(open.stream, open.shard.master, agreed);
    }
    refresh_copy(open.shard, open.stream);
  });
  publish();
}

void ShardGroup::refresh_copy(const Shard& shard, Stream& stream) {
  Tensor copy = shard.copy;
  if (copy.defined()) kernels::cast(stream, shard.master, copy);
}

const ParamSpec* ShardGroup::spec_of(ParamId id) const {
  return std::ranges::find(params_, id, &Param::id)->spec;
}

// What is kept in fewer bits is shown as fp32, in memory of the visit, and what is restored goes
// back; masters are rounded to nearest then.
void ShardGroup::visit(Visit what, const std::function<void(OwnedPart&)>& visitor) {
  if (!visits(what)) return;
  const bool writes = what == Visit::kRestore;
  // What is restored goes on with the columns that there are, unless these are restored, too.
  if (writes) state_->write_back(auxiliary_of_state());
  state_->visit(writes ? PartAccess::kChange : PartAccess::kRead, [&](OpenPart& open) {
    show(open, what, visitor);
    if (writes) refresh_copy(open.shard, open.stream);
  });
}

void ShardGroup::show(const OpenPart& open, Visit what,
                      const std::function<void(OwnedPart&)>& visitor) {
  const OwnedRange mine = owned_range(open.part);
  const int64_t begin = mine.begin, numel = mine.within_slice.numel;
  const std::vector<ShardField> fields =
      fields_within(fields_of(open.part.bucket, comm_.rank()), mine.within_slice);
  const std::span<const SlotSpec> specs = slot_specs();
  Tensor kept = shown_weights(open.shard).narrow(begin, numel);
  const bool is_plain = kept.dtype() == DType::kF32;
  Tensor shown =
      is_plain ? kept : Tensor::empty({numel}, DType::kF32, open.stream, MemoryTag::kScratch);
  if (!is_plain) kernels::cast(open.stream, kept, shown);
  OwnedPart part{.master = shown,
                 .slots = {},
                 .specs = specs,
                 .fields = fields,
                 .stream = open.stream,
                 .seen_slot = seen_slot()};
  std::vector<kernels::StateTensor> states;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor& scale = open.shard.scales[i];
    kernels::StateTensor& state = states.emplace_back(kernels::StateTensor{
        .values = open.shard.slots[i].narrow(begin, numel),
        .scales = scale.defined() ? scale.narrow(begin / kWeightsPerScale, numel / kWeightsPerScale)
                                  : Tensor(),
        .format = format_of(specs[i])});
    if (state.format == kernels::MomentFormat::kFp32) {
      part.slots.push_back(state.values);
      continue;
    }
    part.slots.push_back(Tensor::empty({numel}, DType::kF32, open.stream, MemoryTag::kScratch));
    kernels::unpack_state(open.stream, state, part.slots.back());
  }
  visitor(part);
  if (what == Visit::kRestore && !is_plain) kernels::cast(open.stream, shown, kept);
  for (size_t i = 0; what == Visit::kRestore && i < states.size(); ++i) {
    if (states[i].format == kernels::MomentFormat::kFp32) continue;
    kernels::pack_state(open.stream, part.slots[i], states[i]);
  }
}

// With whole state a part is a whole bucket, of which one slice is this rank's.
ShardGroup::OwnedRange ShardGroup::owned_range(const StatePart& part) const {
  if (!has_whole_state() || comm_.size() == 1) return {.begin = 0, .within_slice = part};
  const int64_t slice = layout_.slice_numel(part.bucket);
  return {.begin = comm_.rank() * slice,
          .within_slice = {.bucket = part.bucket, .begin = 0, .numel = slice}};
}

void ShardGroup::append_fields(Visit what, std::vector<std::vector<ShardField>>& fields) const {
  if (!visits(what)) return;
  for (const StatePart& part : state_->parts()) {
    fields.push_back(
        fields_within(fields_of(part.bucket, comm_.rank()), owned_range(part).within_slice));
  }
}

void ShardGroup::restore_from_owned() {
  if (has_whole_state() && comm_.size() > 1) {
    const auto gather_slice = [this](Tensor& whole) {
      const int64_t slice = whole.numel() / comm_.size();
      comm_.all_gather(whole.narrow(comm_.rank() * slice, slice), whole, streams_.compute);
    };
    for (Shard& shard : shards()) {
      gather_slice(shard.master);
      for (Tensor& slot : shard.slots) gather_slice(slot);
      for (Tensor& scale : shard.scales) {
        if (scale.defined()) gather_slice(scale);
      }
      refresh_copy(shard, streams_.compute);
    }
  }
  state_->take_back(auxiliary_of_state());
  settle_restored();
  publish();
}

void ShardGroup::settle_restored() {
  if (!key_.trains || options_.state.optimizer == nullptr || options_.offloads_state()) return;
  auxiliary_.begin_lost(shards());
  if (!has_agreed_weights()) return;
  const UpdateGroup group = update_group();
  for (Shard& shard : shards()) {
    kernels::cast(streams_.compute, shown_weights(shard), shard.master);
  }
  options_.state.optimizer->own_weights(shards(), group, streams_.compute);
  for (const Shard& shard : shards()) refresh_copy(shard, streams_.compute);
}

}  // namespace ds
