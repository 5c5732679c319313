// ShardedStore: the one ParameterStore behind ZeRO stages 0 to 3. It sorts parameters into groups
// (zero/shard_group.h), which lay them out in buckets and keep what the policy says this rank
// keeps, has buckets gathered while they are leased, and shows the optimizer this rank's shards.
// A model sees the ParameterStore. Who trains has step(), who saves, loads or exports has state(),
// and who plans has gathers(). Confined to the thread that runs the step.
#pragma once

#include <memory>
#include <vector>

#include "comm/mesh.h"
#include "core/values/index.h"
#include "model/pass/param.h"
#include "zero/gather_record.h"
#include "zero/state_visitor.h"
#include "zero/store_parts.h"
#include "zero/store_step.h"

namespace ds {

class ShardedStore final : public ParameterStore {
 public:
  // memory: for what peers read (that of the data group, perhaps tracked); everything else comes
  // from that of the computing stream at seal(). All references must outlive the store.
  ShardedStore(ZeroOptions options, Mesh& mesh, StoreStreams streams, MemoryResource& memory,
               const OffloadPlaces& offload = {});
  // What a thread is still given with peers is not begun, or waited for.
  ~ShardedStore() override;
  ShardedStore(const ShardedStore&) = delete;  // leases refer to it
  ShardedStore& operator=(const ShardedStore&) = delete;

  ParamId add(ParamSpec spec) override;
  void expect_uses(ParamId id, int uses) override;
  // Before seal(), where parameters are added here that are some of a model's: all of them, by
  // which the optimizer places them, and checkpoints are compared.
  void know_model(std::vector<ParamSpec> all);
  void seal() override;
  int count() const override { return narrow<int>(parts_.params.size()); }
  const ParamSpec& spec(ParamId id) const override { return parts_.param(id).spec; }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId id) override;
  void rows_touched(ParamId id, const Tensor& order) override;
  void begin_micro_step() override { step_.begin_micro_step(); }
  void end_micro_step() override { step_.end_micro_step(); }
  Tensor summed_gradient(ParamId id) override;
  void reduce_gradients() override { step_.reduce_gradients(); }

  StoreStep& step() { return step_; }
  StateVisitor& state() { return state_; }
  GatherRecord& gathers() { return gathers_; }
  const std::vector<std::unique_ptr<ShardGroup>>& groups() const { return parts_.groups; }

 private:
  GradientSink& grads_of(const StoredParam& param) const;
  ParamSpec marked(ParamSpec spec) const;
  bool is_sealed() const { return !parts_.groups.empty(); }
  void place_params();

  Mesh& mesh_;
  const StoreStreams streams_;
  const OffloadPlace offload_;
  BucketSlots slots_;
  StoreParts parts_;
  GatherRecord gathers_;
  StoreStep step_;
  StateVisitor state_;
};

}  // namespace ds
