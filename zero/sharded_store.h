// ShardedStore: the one ParameterStore behind ZeRO stages 0 to 3. It sorts parameters into groups
// (zero/shard_group.h), which lay them out in buckets and keep what the policy says this rank
// keeps, has buckets gathered while they are leased, and shows the optimizer this rank's shards.
// Confined to the thread that runs the step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "core/values/index.h"
#include "model/pass/param.h"
#include "zero/shard_group.h"

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
  int count() const override { return narrow<int>(params_.size()); }
  const ParamSpec& spec(ParamId id) const override { return param(id).spec; }
  Lease acquire(ParamId id) override;
  GradSlot grad_slot(ParamId id) override;
  void grad_ready(ParamId id) override;
  void rows_touched(ParamId id, const Tensor& order) override;

  // A step is begin_step(), then per micro-step begin_micro_step(), forward, backward,
  // end_micro_step(), then reduce_gradients(), update(), publish(). With Reduce::kStepEnd and whole
  // weights several micro-steps may be under way at once.
  // gradients: of whom the update is to have them, where Reduce::kIfAsked leaves that open.
  // step: its number, from 1, by which errors of quantized gradients begin anew now and then.
  void begin_step(GradientsOf gradients = GradientsOf::kAllRanks, int64_t step = 1);
  // After begin_step(), where state is updated ahead: what is expected of this step's update. Where
  // it turns out to be another one, that is made, and nothing is left of the expected one.
  struct ExpectedUpdate {
    StepInputs inputs{};
    float grad_scale = 1;
  };
  void expect(const ExpectedUpdate& update);
  bool updates_ahead() const { return expected_scalars_.has_value(); }
  void begin_micro_step() override;
  void end_micro_step() override;
  // Instead of begin_micro_step() to end_micro_step(): the streams have been given all of a
  // micro-step like one before it.
  void repeat_micro_step();
  bool is_first_micro_step() const { return micro_steps_.done == 0; }
  // Nothing waits any more for what the streams have been given so far: they have waited for each
  // other, or will before they go on.
  void forget_events();
  // Whether micro-steps and updates can be recorded into graphs: the host has a part in what passes
  // through a swap file, and in updates of offloaded state.
  bool is_recordable() const {
    return !options_.offloads_state() && (offloaded_ == nullptr || !offloaded_->uses_swap());
  }
  Tensor summed_gradient(ParamId id) override;
  void reduce_gradients() override;
  // Adds the squares of the slices that this rank answers for to an fp64 number on the stream's
  // device: over all ranks every element counts once.
  void add_sum_of_squares(const Tensor& total);
  // Part by part, each where it lies. With offloaded state it waits for the scalars. `number`: of
  // the update, where the optimizer is staged.
  void update(const Optimizer& optimizer, const StepScalars& scalars,
              const UpdateNumber& number = {});
  void publish();  // every rank sees the updated weights; those that are frozen stay

  // Weights as their initialisers say, equal at every rank count; then publish().
  void initialize(uint64_t seed);
  // One part after the other, in the same order every time. A part's tensors may be used during
  // its visit only: state need not fit into memory at once. What the visitor writes stays.
  void visit_owned(Visit what, const std::function<void(OwnedPart&)>& visitor);
  // Whether a visit has failed because of what is swapped, and not of the visitor.
  bool has_swap_failed() const { return has_swap_failed_; }
  // Visits the optimizer's state that is no number per weight in the same way.
  void visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor);
  // Which elements the parts hold, in the order of the visit: known without opening them.
  std::vector<std::vector<ShardField>> owned_fields(Visit what) const;
  // That auxiliary may have, the optimizer's and others.
  std::vector<std::string> extra_names() const;
  // Returns the names of the slots that are kept of a parameter.
  std::vector<std::string> slot_names(ParamId id) const;
  // All parameters of the model: those that are here, where nothing else is known. Of each what
  // slot_names() are, and of one that is here which of them it is.
  std::vector<ParamSpec> model_specs() const;
  std::vector<std::vector<std::string>> model_slot_names() const;
  size_t index_in_model(ParamId id) const;
  // After a visit that wrote: low-precision copies and whole weights follow. With whole state
  // (stage 0) the slices of master and slots travel to every rank.
  void restore_from_owned();

  // Buckets are numbered through all groups. The dry run records; its events make the plan that
  // the real store follows.
  std::vector<int64_t> bucket_numel() const;
  std::vector<bool> offloaded_buckets() const;  // empty: none is
  std::vector<bool> coded_buckets() const;      // whose weights are made of codes
  const std::vector<GatherEvent>& recorded_events() const { return recorded_; }
  void follow(GatherPlan plan) { plan_ = std::move(plan); }
  // The places of buckets are planned in the same way; a micro-step is one of their rounds.
  BucketSlots& slots() { return slots_; }
  const std::vector<std::unique_ptr<ShardGroup>>& groups() const { return groups_; }

 private:
  struct Param {
    ParamSpec spec;
    int uses = 1;
    int group = -1;
    int index = 0;  // within the group
  };
  struct BucketPlace {
    ShardGroup* group;
    int bucket;      // within the group
    int leases = 0;  // of its parameters
  };
  const Param& param(ParamId id) const;
  auto training() const {  // those of the groups that train
    return groups_ | std::views::filter([](const auto& group) { return group->trains(); });
  }
  GradReducer& grads_of(const Param& param) const;
  ParamSpec marked(ParamSpec spec) const;
  ShardGroup& group_of(const Param& param) const { return *nth(groups_, param.group); }
  int bucket_of(const Param& param) const;  // through all groups
  bool is_sealed() const { return !groups_.empty(); }
  void place_params();
  void on_event(GatherEvent event);
  void fetch(int bucket);
  void gather(int bucket);
  void release(int bucket);
  void release_lease(int bucket);
  bool is_as_expected() const;
  void settle_ahead(const StepScalars& scalars);

  const ZeroOptions options_;
  Mesh& mesh_;
  const StoreStreams streams_;
  const OffloadPlace offload_;
  std::optional<StepScalars> host_scalars_;      // of updates beside the device
  std::optional<StepScalars> expected_scalars_;  // of those made ahead
  BucketSlots slots_;
  const std::unique_ptr<OffloadedWeights> offloaded_;  // null: nothing is
  std::vector<Param> params_;
  std::vector<ParamSpec> model_;    // empty: all of it is here
  std::vector<int> model_kinds_;    // likewise: of its parameters, the optimizer's
  std::vector<ParamPlace> places_;  // of each parameter, at the optimizer's; empty without one
  std::vector<std::unique_ptr<ShardGroup>> groups_;
  std::vector<int> first_bucket_;  // of each group
  std::vector<BucketPlace> buckets_;
  GatherPlan plan_;  // empty: on demand
  struct {
    int open = 0;
    int done = 0;  // of the step
  } micro_steps_;
  size_t next_event_ = 0;
  std::vector<GatherEvent> recorded_;
  bool has_swap_failed_ = false;
};

}  // namespace ds
