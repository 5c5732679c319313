// ShardedStore: the one ParameterStore behind ZeRO stages 0 to 3. It lays parameters out in
// buckets, keeps what the policy says this rank keeps, gathers the rest while it is leased, reduces
// gradients, and shows the optimizer this rank's shards. Confined to the thread that runs the step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/index.h"
#include "model/param.h"
#include "zero/bucket_layout.h"
#include "zero/gather_plan.h"
#include "zero/grad_reducer.h"
#include "zero/policy.h"

namespace ds {

struct ZeroOptions {
  ZeroPolicy policy;
  int64_t bucket_numel = 500'000'000;
  int64_t persistence_numel = 100'000;
  GatherLimits gather;
  DType grad_slice_dtype = DType::kF32;  // sum over micro-steps
  int micro_steps = 1;
  std::vector<SlotSpec> slots;  // of the optimizer
};

// What this rank alone answers for, at any stage: slice `rank` of a bucket. Written to checkpoints.
struct OwnedPart {
  Tensor master;              // fp32 [slice]
  std::vector<Tensor> slots;  // [slice] each, of the dtype of ZeroOptions::slots
  const std::vector<ShardField>& fields;
};

class ShardedStore final : public ParameterStore {
 public:
  // comm is the data group. memory: for what peers read (comm.memory(), perhaps tracked);
  // everything else comes from stream.memory() at seal(). All references must outlive the store.
  ShardedStore(ZeroOptions options, Communicator& comm, Stream& stream, MemoryResource& memory);

  ParamId add(ParamSpec spec) override;
  void expect_uses(ParamId id, int uses) override;
  void seal() override;
  int count() const override { return narrow<int>(specs_.size()); }
  const ParamSpec& spec(ParamId id) const override { return specs_[index(id)]; }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId id) override;

  // A step is begin_step(), then per micro-step begin_micro_step(), forward, backward,
  // end_micro_step(); then the optimizer over shards(), then publish().
  void begin_step() { grads_->begin_step(); }
  void begin_micro_step() override;
  void end_micro_step() override;
  // Adds the squares of this rank's reduced slices to an fp64 number on the stream's device.
  void add_sum_of_squares(const Tensor& total);
  std::span<Shard> shards() { return shards_; }
  void publish();  // every rank sees the updated weights

  // Weights as their initialisers say, equal at every rank count; then publish().
  void initialize(uint64_t seed);
  // One part after the other, in the same order every time. A part's tensors may be used during
  // its visit only: state need not fit into memory at once. What the visitor writes stays.
  void visit_owned(const std::function<void(OwnedPart&)>& visit);
  // Which elements the parts hold, in the order of the visit: known without opening them.
  std::vector<std::vector<ShardField>> owned_fields() const;
  // After a visit that wrote: low-precision copies and whole weights follow. With whole state
  // (stage 0) the slices of master and slots travel to every rank.
  void restore_from_owned();

  // The dry run records; its events make the plan that the real store follows.
  const std::vector<GatherEvent>& recorded_events() const { return recorded_; }
  void follow(GatherPlan plan) { plan_ = std::move(plan); }
  const BucketLayout& layout() const { return layout_; }
  const ZeroOptions& options() const { return options_; }

 private:
  struct Weights {
    Tensor kept;      // whole bucket, or this rank's slice of it
    Tensor gathered;  // whole bucket while live, where only a slice is kept
    bool sharded = false;
    int leases = 0;
  };
  size_t index(ParamId id) const;
  void make_weights(int bucket);
  void make_shard(int bucket);
  void on_event(GatherEvent event);
  void gather(int bucket);
  void release_lease(int bucket);
  void refresh_copies();

  const ZeroOptions options_;
  Communicator& comm_;
  Stream& stream_;
  MemoryResource& memory_;
  std::vector<ParamSpec> specs_;
  std::vector<int> uses_;
  BucketLayout layout_;
  std::vector<Weights> weights_;
  std::unique_ptr<GradReducer> grads_;
  std::vector<Shard> shards_;
  GatherPlan plan_;  // empty: on demand
  bool in_micro_step_ = false;
  size_t next_event_ = 0;
  std::vector<GatherEvent> recorded_;
};

}  // namespace ds
