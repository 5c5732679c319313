#include "zero/sharded_store.h"

#include "core/index.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "model/initializer.h"

namespace ds {

ShardedStore::ShardedStore(ZeroOptions options, Communicator& comm, Stream& stream,
                           MemoryResource& memory)
    : options_(std::move(options)), comm_(comm), stream_(stream), memory_(memory) {}

ParamId ShardedStore::add(ParamSpec spec) {
  DS_CHECK(grads_ == nullptr, "parameter store: {} added after seal()", spec.name);
  for (const ParamSpec& other : specs_) {
    DS_CHECK(other.name != spec.name, "parameter store: {} was added before", spec.name);
  }
  DS_CHECK(specs_.empty() || specs_.front().dtype == spec.dtype,
           "parameter store: {} is {}, the others are {}", spec.name, name_of(spec.dtype),
           name_of(specs_.front().dtype));
  specs_.push_back(std::move(spec));
  uses_.push_back(1);
  return static_cast<ParamId>(specs_.size()) - 1;
}

void ShardedStore::expect_uses(ParamId id, int uses) {
  DS_CHECK(grads_ == nullptr && uses >= 1, "parameter store: {} uses of parameter {}", uses, id);
  uses_[index(id)] = uses;
}

size_t ShardedStore::index(ParamId id) const {
  DS_CHECK(id >= 0 && id < count(), "parameter store: parameter {} of {}", id, count());
  return to_size(id);
}

void ShardedStore::seal() {
  DS_CHECK(!specs_.empty(), "parameter store: sealed without parameters");
  std::vector<LayoutParam> params;
  for (const ParamSpec& spec : specs_) {
    params.push_back({.numel = spec.shape.numel(), .unit = spec.unit});
  }
  layout_ = BucketLayout::build(params, {.bucket_numel = options_.bucket_numel,
                                         .persistence_numel = options_.persistence_numel,
                                         .group_size = comm_.size()});
  const int buckets = narrow<int>(layout_.buckets().size());
  weights_.resize(to_size(buckets));
  for (int b = 0; b < buckets; ++b) make_weights(b);
  grads_ = std::make_unique<GradReducer>(GradOptions{.sharding = options_.policy.grads.sharding,
                                                     .state = options_.policy.state.sharding,
                                                     .dtype = specs_.front().dtype,
                                                     .slice_dtype = options_.grad_slice_dtype,
                                                     .micro_steps = options_.micro_steps},
                                         layout_, uses_, comm_, stream_, memory_);
  for (int b = 0; b < buckets; ++b) make_shard(b);
}

void ShardedStore::make_weights(int bucket) {
  Weights& weights = nth(weights_, bucket);
  const Bucket& layout = nth(layout_.buckets(), bucket);
  weights.sharded = options_.policy.params.sharding == Sharding::kSharded && !layout.persistent &&
                    comm_.size() > 1;
  const int64_t numel = weights.sharded ? layout_.slice_numel(bucket) : layout.numel;
  const MemoryScope scope(stream_, memory_);
  weights.kept = Tensor::zeros({numel}, specs_.front().dtype, stream_, MemoryTag::kParameters);
}

void ShardedStore::make_shard(int bucket) {
  const Weights& weights = nth(weights_, bucket);
  const bool whole_state = options_.policy.state.sharding == Sharding::kWhole || comm_.size() == 1;
  const int64_t slice = layout_.slice_numel(bucket);
  const int64_t numel = whole_state ? slice * comm_.size() : slice;
  const Tensor mine = weights.sharded || whole_state
                          ? weights.kept
                          : weights.kept.narrow(comm_.rank() * slice, slice);
  Shard shard;
  if (mine.dtype() == DType::kF32) {
    shard.master = mine;
  } else {
    shard.master = Tensor::zeros({numel}, DType::kF32, stream_, MemoryTag::kOptimizer);
    shard.copy = mine;
  }
  shard.grad = whole_state ? grads_->whole(bucket) : grads_->slice(bucket);
  for (const SlotSpec& slot : options_.slots) {
    shard.slots.push_back(Tensor::zeros({numel}, slot.dtype, stream_, MemoryTag::kOptimizer));
  }
  shard.fields = layout_.fields(bucket, whole_state ? -1 : comm_.rank());
  shards_.push_back(std::move(shard));
}

Lease ShardedStore::acquire(ParamId id) {
  const ParamSpec& param = spec(id);
  DS_CHECK(grads_ != nullptr, "parameter store: {} is acquired before seal()", param.name);
  const int bucket = layout_.bucket_of(id);
  Weights& weights = nth(weights_, bucket);
  const auto view = [&](const Tensor& whole) {
    return whole.narrow(layout_.offset_of(id), param.shape.numel()).reshape(param.shape);
  };
  if (!weights.sharded) return {view(weights.kept), nullptr};
  if (weights.leases++ == 0) on_event({.kind = GatherEvent::Kind::kAcquire, .bucket = bucket});
  return {view(weights.gathered), [this, bucket] { release_lease(bucket); }};
}

void ShardedStore::release_lease(int bucket) {
  if (--nth(weights_, bucket).leases == 0) {
    on_event({.kind = GatherEvent::Kind::kIdle, .bucket = bucket});
  }
}

void ShardedStore::on_event(GatherEvent event) {
  const bool planned = in_micro_step_ && !plan_.events.empty();
  if (!planned) {
    if (in_micro_step_) recorded_.push_back(event);
    if (event.kind == GatherEvent::Kind::kAcquire) {
      gather(event.bucket);
    } else {
      nth(weights_, event.bucket).gathered = Tensor();
    }
    return;
  }
  DS_CHECK(next_event_ < plan_.events.size() && plan_.events[next_event_] == event,
           "gather plan: event {} on bucket {} is not what the dry run did", next_event_,
           event.bucket);
  const GatherAction& action = plan_.actions[next_event_++];
  for (const int b : action.release) nth(weights_, b).gathered = Tensor();
  for (const int b : action.gather) gather(b);
}

void ShardedStore::gather(int bucket) {
  Weights& weights = nth(weights_, bucket);
  const MemoryScope scope(stream_, memory_);
  weights.gathered = Tensor::empty({nth(layout_.buckets(), bucket).numel}, weights.kept.dtype(),
                                   stream_, MemoryTag::kBuckets);
  comm_.all_gather(weights.kept, weights.gathered, stream_);
}

GradSlot ShardedStore::grad_slot(ParamId id) { return grads_->slot(id, spec(id).shape); }

void ShardedStore::grad_ready(ParamId id) { grads_->ready(id); }

void ShardedStore::begin_micro_step() {
  in_micro_step_ = true;
  next_event_ = 0;
  recorded_.clear();
}

void ShardedStore::end_micro_step() {
  DS_CHECK(plan_.events.empty() || next_event_ == plan_.events.size(),
           "gather plan: the micro-step made {} of the dry run's {} events", next_event_,
           plan_.events.size());
  in_micro_step_ = false;
  grads_->end_micro_step();
}

void ShardedStore::add_sum_of_squares(const Tensor& total) {
  for (int b = 0; b < narrow<int>(layout_.buckets().size()); ++b) {
    kernels::sum_of_squares_into(stream_, grads_->slice(b), kernels::Write::kAccumulate, total);
  }
}

void ShardedStore::publish() {
  if (options_.policy.state.sharding == Sharding::kWhole || comm_.size() == 1) return;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    Weights& weights = nth(weights_, b);
    if (weights.sharded) continue;
    const int64_t slice = layout_.slice_numel(b);
    comm_.all_gather(weights.kept.narrow(comm_.rank() * slice, slice), weights.kept, stream_);
  }
}

void ShardedStore::initialize(uint64_t seed) {
  for (Shard& shard : shards_) {
    for (const ShardField& field : shard.fields) {
      Tensor range = shard.master.narrow(field.offset, field.numel);
      ds::initialize(spec(field.param), seed, field.param_begin, range);
    }
  }
  refresh_copies();
  publish();
}

void ShardedStore::refresh_copies() {
  for (Shard& shard : shards_) {
    if (shard.copy.defined()) kernels::cast(stream_, shard.master, shard.copy);
  }
}

void ShardedStore::visit_owned(const std::function<void(OwnedPart&)>& visit) {
  const std::vector<std::vector<ShardField>> fields = owned_fields();
  for (int b = 0; b < narrow<int>(shards_.size()); ++b) {
    const Shard& shard = nth(shards_, b);
    const int64_t slice = layout_.slice_numel(b);
    const int64_t begin = shard.master.numel() == slice ? 0 : comm_.rank() * slice;
    OwnedPart part{
        .master = shard.master.narrow(begin, slice), .slots = {}, .fields = nth(fields, b)};
    for (const Tensor& slot : shard.slots) part.slots.push_back(slot.narrow(begin, slice));
    visit(part);
  }
}

std::vector<std::vector<ShardField>> ShardedStore::owned_fields() const {
  std::vector<std::vector<ShardField>> fields;
  for (int b = 0; b < narrow<int>(shards_.size()); ++b) {
    fields.push_back(layout_.fields(b, comm_.rank()));
  }
  return fields;
}

void ShardedStore::restore_from_owned() {
  const bool whole_state = options_.policy.state.sharding == Sharding::kWhole && comm_.size() > 1;
  if (whole_state) {
    for (Shard& shard : shards_) {
      const int64_t slice = shard.master.numel() / comm_.size();
      comm_.all_gather(shard.master.narrow(comm_.rank() * slice, slice), shard.master, stream_);
      for (Tensor& slot : shard.slots) {
        comm_.all_gather(slot.narrow(comm_.rank() * slice, slice), slot, stream_);
      }
    }
  }
  refresh_copies();
  publish();
}

}  // namespace ds
