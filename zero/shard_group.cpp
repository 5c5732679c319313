#include "zero/shard_group.h"

#include <algorithm>

#include "core/memory/host_copy.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "model/initializer.h"

namespace ds {
namespace {

BucketLayout layout_of(std::span<const ShardGroup::Param> params, const ZeroOptions& options,
                       int kind, int group_size) {
  std::vector<LayoutParam> list;
  for (const ShardGroup::Param& param : params) {
    list.push_back(
        {.numel = param.spec->shape.numel(), .unit = param.spec->unit, .group = param.options});
  }
  const bool whole =
      options.optimizer != nullptr && options.optimizer->needs_whole_parameters(kind);
  return BucketLayout::build(list,
                             {.bucket_numel = options.bucket_numel,
                              .persistence_numel = options.persistence_numel,
                              .group_size = group_size,
                              .slicing = whole ? Slicing::kWholeParameters : Slicing::kElements});
}

bool is_first_of_all(const GroupKey& key, const Mesh& mesh) {
  const auto first = [&](Axis axis) { return mesh.coordinate(axis) == 0; };
  return std::ranges::all_of(key.summed, first) && std::ranges::all_of(key.repeated, first);
}

}  // namespace

GroupKey group_key(const ParamSpec& spec, const ZeroOptions& options) {
  const ZeroPolicy& policy = options.policy;
  GroupKey key{.dtype = spec.dtype,
               .shard = policy.shard_over,
               .summed = spec.replicas.summed,
               .repeated = spec.replicas.same};
  const std::vector<ModuleKind>& modules = options.wire_modules;
  if (modules.empty() || std::ranges::find(modules, spec.module) != modules.end()) {
    key.wire = options.grad_wire_dtype;
  }
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

ShardGroup::ShardGroup(const ZeroOptions& options, const GroupKey& key, std::vector<Param> params,
                       Mesh& mesh, StoreStreams streams, BucketSlots& slots,
                       OffloadedWeights* offloaded)
    : options_(options),
      dtype_(key.dtype),
      slot_specs_(options.optimizer != nullptr ? options.optimizer->slots_of(key.kind)
                                               : options.slots),
      params_(std::move(params)),
      comm_(mesh.group(key.shard)),
      answers_(is_first_of_all(key, mesh)),
      streams_(streams),
      slots_(slots),
      offloaded_(offloaded),
      layout_(layout_of(params_, options, key.kind, comm_.size())),
      weights_(layout_.buckets().size()) {
  const int buckets = narrow<int>(weights_.size());
  for (int b = 0; b < buckets; ++b) make_weights(b);
  std::vector<int> uses;
  for (const Param& param : params_) uses.push_back(param.uses);
  std::vector<Communicator*> summed;
  for (const Axis axis : key.summed) summed.push_back(&mesh.group(axis));
  grads_ = std::make_unique<GradReducer>(GradOptions{.sharding = options.policy.grads.sharding,
                                                     .state = options.policy.state.sharding,
                                                     .dtype = key.dtype,
                                                     .slice_dtype = options.grad_slice_dtype,
                                                     .wire_dtype = key.wire,
                                                     .reduce = options.reduce,
                                                     .micro_steps = options.micro_steps},
                                         layout_, std::move(uses),
                                         GradPeers{.shard = comm_, .summed = std::move(summed)},
                                         streams_, slots_);
  for (int b = 0; b < buckets; ++b) make_shard(b);
}

bool ShardGroup::has_whole_state() const {
  return options_.policy.state.sharding == Sharding::kWhole || comm_.size() == 1;
}

bool ShardGroup::shards_weights() const {
  return std::ranges::any_of(weights_, [](const Weights& weights) { return weights.sharded; });
}

void ShardGroup::make_weights(int bucket) {
  Weights& weights = nth(weights_, bucket);
  const Bucket& layout = nth(layout_.buckets(), bucket);
  const Placement& params = options_.policy.params;
  const bool offloads = params.tier != Tier::kDevice;  // who is alone has its slices elsewhere, too
  weights.sharded =
      params.sharding == Sharding::kSharded && !layout.persistent && (comm_.size() > 1 || offloads);
  if (weights.sharded && offloads) {
    weights.offloaded = offloaded_->add(layout_.slice_numel(bucket), dtype_);
    return;
  }
  const int64_t numel = weights.sharded ? layout_.slice_numel(bucket) : layout.numel;
  const MemoryScope scope(streams_.compute, slots_.memory());
  weights.kept = Tensor::zeros({numel}, dtype_, streams_.compute, MemoryTag::kParameters);
}

void ShardGroup::make_shard(int bucket) {
  const Weights& weights = nth(weights_, bucket);
  const bool whole_state = has_whole_state();
  const int64_t slice = layout_.slice_numel(bucket);
  const int64_t numel = whole_state ? slice * comm_.size() : slice;
  const bool offloaded = offloads_weights(bucket);
  const Tensor mine = offloaded || weights.sharded || whole_state
                          ? weights.kept
                          : weights.kept.narrow(comm_.rank() * slice, slice);
  Shard shard;
  if (!offloaded && dtype_ == DType::kF32) {
    shard.master = mine;
  } else {
    shard.master = Tensor::zeros({numel}, DType::kF32, streams_.compute, MemoryTag::kOptimizer);
    shard.copy = mine;
  }
  shard.grad = whole_state ? grads_->whole(bucket) : grads_->slice(bucket);
  make_slots(shard, numel);
  shard.fields = fields_of(bucket, shard_rank());
  if (whole_state) shard.own = {.begin = comm_.rank() * slice, .numel = slice};
  shards_.push_back(std::move(shard));
}

void ShardGroup::make_slots(Shard& shard, int64_t numel) {
  Stream& stream = streams_.compute;
  for (const SlotSpec& spec : slot_specs_) {
    Tensor slot = Tensor::zeros({numel}, spec.dtype, stream, MemoryTag::kOptimizer);
    const kernels::MomentFormat format = format_of(spec);
    Tensor scale;
    if (spec.dtype == DType::kU8) {
      scale = Tensor::zeros({numel / kWeightsPerScale}, DType::kU8, stream, MemoryTag::kOptimizer);
    }
    if (spec.initial != 0) {
      Tensor numbers = Tensor::empty({numel}, DType::kF32, stream, MemoryTag::kScratch);
      kernels::fill(stream, numbers, spec.initial);
      kernels::pack_state(stream, numbers, {.values = slot, .scales = scale, .format = format});
    }
    shard.slots.push_back(std::move(slot));
    shard.scales.push_back(std::move(scale));
  }
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
  if (comm_.size() == 1) {
    weights.gathered = std::move(slice);
  } else {
    weights.gathered = slots_.take(nth(layout_.buckets(), bucket).numel, dtype_, streams_.peers);
    comm_.all_gather(slice, weights.gathered, streams_.peers);
    if (offloaded) slots_.give_back(slice, streams_.peers);
  }
  weights.gathered_at = streams_.peers.mark();
}

void ShardGroup::release(int bucket) {
  slots_.give_back(nth(weights_, bucket).gathered, streams_.compute);
}

Tensor ShardGroup::weight(int param) const {
  const Weights& weights = nth(weights_, layout_.bucket_of(param));
  const Shape& shape = nth(params_, param).spec->shape;
  if (weights.sharded) streams_.compute.wait(weights.gathered_at);
  return (weights.sharded ? weights.gathered : weights.kept)
      .narrow(layout_.offset_of(param), shape.numel())
      .reshape(shape);
}

void ShardGroup::forget_events() {
  for (Weights& weights : weights_) weights.gathered_at = {};
  grads_->forget_events();
}

void ShardGroup::add_sum_of_squares(const Tensor& total) {
  if (!answers_) return;
  // Of gradients that nobody sums, each rank's own count: the norm is that of all of them together.
  const bool apart = options_.reduce == Reduce::kNever;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    kernels::sum_of_squares_into(streams_.compute, apart ? grads_->whole(b) : grads_->slice(b),
                                 kernels::Write::kAccumulate, total);
  }
}

void ShardGroup::publish() {
  streams_.peers.wait(streams_.compute.mark());  // gathers of the next step too
  store_offloaded();
  if (has_whole_state()) return;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    Weights& weights = nth(weights_, b);
    if (weights.sharded) continue;
    const int64_t slice = layout_.slice_numel(b);
    comm_.all_gather(weights.kept.narrow(comm_.rank() * slice, slice), weights.kept,
                     streams_.peers);
  }
  streams_.compute.wait(streams_.peers.mark());
}

void ShardGroup::store_offloaded() {
  bool any = false;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    if (!offloads_weights(b)) continue;
    offloaded_->store(nth(weights_, b).offloaded, nth(shards_, b).master);
    any = true;
  }
  if (any) offloaded_->end_stores();
}

void ShardGroup::initialize(uint64_t seed) {
  HostCopy through(streams_.compute);
  for (int b = 0; b < narrow<int>(shards_.size()); ++b) {
    for (const ShardField& field : layout_.fields(b, shard_rank())) {
      const Tensor range = nth(shards_, b).master.narrow(field.offset, field.numel);
      through.up(range, [&](int64_t first, Tensor& part) {
        ds::initialize(*nth(params_, field.param).spec, seed, field.param_begin + first, part);
      });
    }
  }
  refresh_copies();
  publish();
}

void ShardGroup::refresh_copies() {
  for (Shard& shard : shards_) {
    if (shard.copy.defined()) kernels::cast(streams_.compute, shard.master, shard.copy);
  }
}

// State that is kept in fewer bits is shown as fp32, in memory of the visit, and what is restored
// goes back.
void ShardGroup::visit(Visit what, const std::function<void(OwnedPart&)>& visitor) {
  if (!visits(what)) return;
  for (int b = 0; b < narrow<int>(shards_.size()); ++b) {
    const Shard& shard = nth(shards_, b);
    const std::vector<ShardField> fields = fields_of(b, comm_.rank());
    const int64_t slice = layout_.slice_numel(b);
    const int64_t begin = shard.master.numel() == slice ? 0 : comm_.rank() * slice;
    OwnedPart part{.master = shard.master.narrow(begin, slice),
                   .slots = {},
                   .specs = slot_specs_,
                   .fields = fields};
    std::vector<kernels::StateTensor> states;
    for (size_t i = 0; i < slot_specs_.size(); ++i) {
      const Tensor& scale = shard.scales[i];
      kernels::StateTensor& state = states.emplace_back(kernels::StateTensor{
          .values = shard.slots[i].narrow(begin, slice),
          .scales = scale.defined()
                        ? scale.narrow(begin / kWeightsPerScale, slice / kWeightsPerScale)
                        : Tensor(),
          .format = format_of(slot_specs_[i])});
      if (state.format == kernels::MomentFormat::kFp32) {
        part.slots.push_back(state.values);
        continue;
      }
      part.slots.push_back(
          Tensor::empty({slice}, DType::kF32, streams_.compute, MemoryTag::kScratch));
      kernels::unpack_state(streams_.compute, state, part.slots.back());
    }
    visitor(part);
    for (size_t i = 0; what == Visit::kRestore && i < states.size(); ++i) {
      if (states[i].format == kernels::MomentFormat::kFp32) continue;
      kernels::pack_state(streams_.compute, part.slots[i], states[i]);
    }
  }
}

void ShardGroup::append_fields(Visit what, std::vector<std::vector<ShardField>>& fields) const {
  if (!visits(what)) return;
  for (int b = 0; b < narrow<int>(shards_.size()); ++b) {
    fields.push_back(fields_of(b, comm_.rank()));
  }
}

void ShardGroup::restore_from_owned() {
  if (has_whole_state() && comm_.size() > 1) {
    const auto gather_slice = [this](Tensor& whole) {
      const int64_t slice = whole.numel() / comm_.size();
      comm_.all_gather(whole.narrow(comm_.rank() * slice, slice), whole, streams_.compute);
    };
    for (Shard& shard : shards_) {
      gather_slice(shard.master);
      for (Tensor& slot : shard.slots) gather_slice(slot);
      for (Tensor& scale : shard.scales) {
        if (scale.defined()) gather_slice(scale);
      }
    }
  }
  refresh_copies();
  publish();
}

}  // namespace ds
