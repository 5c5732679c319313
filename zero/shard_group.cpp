#include "zero/shard_group.h"

#include <algorithm>

#include "core/failpoint.h"
#include "core/memory/host_copy.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "model/initializer.h"

namespace ds {
namespace {

BucketLayout layout_of(std::span<const ShardGroup::Param> params, const ZeroOptions& options,
                       int group_size) {
  std::vector<LayoutParam> list;
  for (const ShardGroup::Param& param : params) {
    list.push_back({.numel = param.spec->shape.numel(), .unit = param.spec->unit});
  }
  return BucketLayout::build(list, {.bucket_numel = options.bucket_numel,
                                    .persistence_numel = options.persistence_numel,
                                    .group_size = group_size});
}

bool is_first_of_all(const GroupKey& key, const Mesh& mesh) {
  const auto first = [&](Axis axis) { return mesh.coordinate(axis) == 0; };
  return std::ranges::all_of(key.summed, first) && std::ranges::all_of(key.repeated, first);
}

}  // namespace

GroupKey group_key(const ParamSpec& spec, const ZeroPolicy& policy) {
  GroupKey key{.dtype = spec.dtype,
               .shard = policy.shard_over,
               .summed = spec.replicas.summed,
               .repeated = spec.replicas.same};
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
                       const OffloadPlace& offload, std::string name)
    : options_(options),
      params_(std::move(params)),
      comm_(mesh.group(key.shard)),
      answers_(is_first_of_all(key, mesh)),
      streams_(streams),
      slots_(slots),
      layout_(layout_of(params_, options, comm_.size())),
      weights_(layout_.buckets().size()) {
  const int buckets = narrow<int>(weights_.size());
  for (int b = 0; b < buckets; ++b) make_weights(b, key.dtype);
  std::vector<int> uses;
  for (const Param& param : params_) uses.push_back(param.uses);
  std::vector<Communicator*> summed;
  for (const Axis axis : key.summed) summed.push_back(&mesh.group(axis));
  grads_ = std::make_unique<GradReducer>(GradOptions{.sharding = options.policy.grads.sharding,
                                                     .state = options.policy.state.sharding,
                                                     .dtype = key.dtype,
                                                     .slice_dtype = options.grad_slice_dtype,
                                                     .reduce = options.reduce,
                                                     .micro_steps = options.micro_steps,
                                                     .offloaded = options.offloads_state()},
                                         layout_, std::move(uses),
                                         GradPeers{.shard = comm_, .summed = std::move(summed)},
                                         streams_, slots_);
  home_ = make_home(offload, std::move(name));
  if (options.offloads_state()) grads_->keep_in(*home_);
}

bool ShardGroup::has_whole_state() const {
  return options_.policy.state.sharding == Sharding::kWhole || comm_.size() == 1;
}

bool ShardGroup::shards_weights() const {
  return std::ranges::any_of(weights_, [](const Weights& weights) { return weights.sharded; });
}

void ShardGroup::make_weights(int bucket, DType dtype) {
  Weights& weights = nth(weights_, bucket);
  const Bucket& layout = nth(layout_.buckets(), bucket);
  weights.sharded = options_.policy.params.sharding == Sharding::kSharded && !layout.persistent &&
                    comm_.size() > 1;
  const int64_t numel = weights.sharded ? layout_.slice_numel(bucket) : layout.numel;
  const MemoryScope scope(streams_.compute, slots_.memory());
  weights.kept = Tensor::zeros({numel}, dtype, streams_.compute, MemoryTag::kParameters);
}

std::vector<HomeSlice> ShardGroup::home_slices() const {
  std::vector<HomeSlice> slices;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    const Weights& weights = nth(weights_, b);
    const int64_t slice = layout_.slice_numel(b);
    const bool is_all = weights.sharded || has_whole_state();
    HomeSlice& made = slices.emplace_back(HomeSlice{
        .weights = is_all ? weights.kept : weights.kept.narrow(comm_.rank() * slice, slice),
        .fields = fields_of(b, shard_rank())});
    if (!options_.offloads_state()) {
      made.grad = has_whole_state() ? grads_->whole(b) : grads_->slice(b);
    }
  }
  return slices;
}

std::unique_ptr<ShardHome> ShardGroup::make_home(const OffloadPlace& offload,
                                                 std::string name) const {
  const bool is_cut = options_.policy.state.sharding == Sharding::kSharded;
  HomeOptions home{.slots = options_.slots,
                   .grad_dtype = options_.grad_slice_dtype,
                   .part_numel = is_cut ? options_.sub_group_numel : INT64_MAX,
                   .name = std::move(name)};
  const std::vector<HomeSlice> slices = home_slices();
  if (!options_.offloads_state()) return make_device_home(home, slices, streams_.compute);
  DS_CHECK(offload.host != nullptr, "zero: optimizer state is offloaded, and there is no host");
  const HostPlace host{*offload.host, options_.pin_memory ? offload.pinned : nullptr};
  const auto beside = [&](const HomeOptions& of) {
    if (options_.policy.state.tier == Tier::kHost) {
      return make_host_home(of, slices, streams_.compute, host);
    }
    DS_CHECK(offload.swap != nullptr, "zero: optimizer state is swapped, and there is no place");
    return make_rolling_home(of, slices, streams_.compute, host, *offload.swap, options_.rolling);
  };
  if (options_.offload_ratio >= 1) return beside(home);
  HomeOptions first = home;
  first.share = {.first = 0, .last = options_.offload_ratio};
  home.share = {.first = options_.offload_ratio, .last = 1};
  return make_split_home(beside(first), make_device_home(home, slices, streams_.compute));
}

std::vector<ShardField> ShardGroup::fields_of(int bucket, int rank) const {
  std::vector<ShardField> fields = layout_.fields(bucket, rank);
  for (ShardField& field : fields) field.param = nth(params_, field.param).id;
  return fields;
}

void ShardGroup::gather(int bucket) {
  Weights& weights = nth(weights_, bucket);
  weights.gathered =
      slots_.take(nth(layout_.buckets(), bucket).numel, weights.kept.dtype(), streams_.peers);
  comm_.all_gather(weights.kept, weights.gathered, streams_.peers);
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
  if (options_.offloads_state()) {
    return kernels::add_in_order(streams_.compute, grads_->squares(), total);
  }
  // Of gradients that nobody sums, each rank's own count: the norm is that of all of them together.
  const bool apart = options_.reduce == Reduce::kNever;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    kernels::sum_of_squares_into(streams_.compute, apart ? grads_->whole(b) : grads_->slice(b),
                                 kernels::Write::kAccumulate, total);
  }
}

void ShardGroup::publish() {
  streams_.peers.wait(streams_.compute.mark());  // gathers of the next step too
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

void ShardGroup::update(const Optimizer& optimizer, const StepScalars& scalars,
                        const StepScalars* host) {
  if (!options_.offloads_state()) {
    return optimizer.step(shards(), scalars, comm_, streams_.compute);
  }
  DS_CHECK(host != nullptr, "zero: optimizer state is offloaded, and no scalars are on the host");
  home_->visit(PartAccess::kUpdate, [&](OpenPart& open) {
    const bool on_device = &open.stream == &streams_.compute;
    optimizer.step({&open.shard, 1}, on_device ? scalars : *host, comm_, open.stream);
    DS_FAILPOINT("offload.part_updated");
  });
}

void ShardGroup::initialize(uint64_t seed) {
  HostCopy through(streams_.compute);
  home_->visit(PartAccess::kFill, [&](OpenPart& open) {
    for (const ShardField& field : open.shard.fields) {
      const Tensor range = open.shard.master.narrow(field.offset, field.numel);
      const ParamSpec& spec = *spec_of(field.param);
      through.up(range, [&](int64_t first, Tensor& part) {
        ds::initialize(spec, seed, field.param_begin + first, part);
      });
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

void ShardGroup::visit(Visit what, const std::function<void(OwnedPart&)>& visitor) {
  if (!visits(what)) return;
  const bool writes = what == Visit::kRestore;
  home_->visit(writes ? PartAccess::kChange : PartAccess::kRead, [&](OpenPart& open) {
    const OwnedRange mine = owned_range(open.part);
    const std::vector<ShardField> fields =
        fields_within(fields_of(open.part.bucket, comm_.rank()), mine.within_slice);
    OwnedPart part{.master = open.shard.master.narrow(mine.begin, mine.within_slice.numel),
                   .slots = {},
                   .fields = fields,
                   .stream = open.stream};
    for (const Tensor& slot : open.shard.slots) {
      part.slots.push_back(slot.narrow(mine.begin, mine.within_slice.numel));
    }
    visitor(part);
    if (writes) refresh_copy(open.shard, open.stream);
  });
}

// With whole state a part is a whole bucket, of which one slice is this rank's.
ShardGroup::OwnedRange ShardGroup::owned_range(const HomePart& part) const {
  if (!has_whole_state() || comm_.size() == 1) return {.begin = 0, .within_slice = part};
  const int64_t slice = layout_.slice_numel(part.bucket);
  return {.begin = comm_.rank() * slice,
          .within_slice = {.bucket = part.bucket, .begin = 0, .numel = slice}};
}

void ShardGroup::append_fields(Visit what, std::vector<std::vector<ShardField>>& fields) const {
  if (!visits(what)) return;
  for (const HomePart& part : home_->parts()) {
    fields.push_back(
        fields_within(fields_of(part.bucket, comm_.rank()), owned_range(part).within_slice));
  }
}

void ShardGroup::restore_from_owned() {
  if (has_whole_state() && comm_.size() > 1) {
    for (Shard& shard : shards()) {
      const int64_t slice = shard.master.numel() / comm_.size();
      comm_.all_gather(shard.master.narrow(comm_.rank() * slice, slice), shard.master,
                       streams_.compute);
      for (Tensor& slot : shard.slots) {
        comm_.all_gather(slot.narrow(comm_.rank() * slice, slice), slot, streams_.compute);
      }
      refresh_copy(shard, streams_.compute);
    }
  }
  publish();
}

}  // namespace ds
