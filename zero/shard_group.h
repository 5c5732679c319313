// ShardGroup: parameters of one dtype whose state is sharded over the same ranks and repeated by
// the same others, with buckets, weights, gradients and shards of their own. The sharded store has
// one for each kind of parameter that a model has: dense ones, experts, those of another dtype.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/mesh.h"
#include "model/param.h"
#include "optim/optimizer.h"
#include "zero/bucket_layout.h"
#include "zero/bucket_slots.h"
#include "zero/gather_plan.h"
#include "zero/grad_reducer.h"
#include "zero/offloaded_weights.h"
#include "zero/policy.h"

namespace ds {

// What parameters have in common that share buckets.
struct GroupKey {
  DType dtype = DType::kF32;
  Axis shard = Axis::kData;      // over its ranks state is cut into slices, and gradients summed
  std::vector<Axis> summed{};    // their ranks have the same slices, and other parts of the sum
  std::vector<Axis> repeated{};  // their ranks have the same slices, and the same gradients
  std::optional<DType> wire{};   // of gradients on their way to other ranks; nothing: as written
  int kind = 0;                  // of the optimizer's
  bool operator==(const GroupKey&) const = default;
};
struct ZeroOptions {
  ZeroPolicy policy;
  int64_t bucket_numel = 500'000'000;
  int64_t persistence_numel = 100'000;
  GatherLimits gather;
  DType grad_slice_dtype = DType::kF32;  // sum over micro-steps
  // In which dtype gradients travel, of all modules or of some; nothing: as they are written.
  std::optional<DType> grad_wire_dtype = std::nullopt;
  std::vector<ModuleKind> wire_modules = {};  // none: all
  Reduce reduce = Reduce::kEachMicroStep;
  int micro_steps = 1;
  WeightOffload offload{};         // where policy.params is on another tier
  std::vector<SlotSpec> slots;     // of the optimizer; where one is named, it says so itself
  Optimizer* optimizer = nullptr;  // whose state is kept; outlives the store
};

GroupKey group_key(const ParamSpec& spec, const ZeroOptions& options);

// What this rank alone answers for, at any stage: slice `rank` of a bucket. Written to checkpoints.
struct OwnedPart {
  Tensor master;                    // fp32 [slice]
  std::vector<Tensor> slots;        // fp32 [slice] each, however they are kept
  std::span<const SlotSpec> specs;  // of the slots
  const std::vector<ShardField>& fields;
};

// Of several ranks that hold the same slices one writes them and counts them in the norm: the one
// whose coordinate is 0 along every axis that repeats them. All of them are restored.
enum class Visit : uint8_t { kSave, kRestore };

class ShardGroup {
 public:
  struct Param {
    ParamId id;
    const ParamSpec* spec;
    int uses = 1;
    int options = 0;  // group of options, of the optimizer's
  };

  // The references must outlive the group. slots: for what peers read, and for buckets that come
  // and go. offloaded: where weights are kept that the policy offloads; may be null without.
  ShardGroup(const ZeroOptions& options, const GroupKey& key, std::vector<Param> params, Mesh& mesh,
             StoreStreams streams, BucketSlots& slots, OffloadedWeights* offloaded);
  ShardGroup(const ShardGroup&) = delete;  // its reducer refers to its layout
  ShardGroup& operator=(const ShardGroup&) = delete;

  const BucketLayout& layout() const { return layout_; }
  Communicator& comm() const { return comm_; }
  std::span<Shard> shards() { return shards_; }
  const std::vector<SlotSpec>& slot_specs() const { return slot_specs_; }
  // Parameters are counted within the group here, buckets everywhere.
  GradReducer& grads() { return *grads_; }

  bool is_gathered_on_use(int bucket) const { return nth(weights_, bucket).sharded; }
  bool shards_weights() const;
  bool offloads_weights(int bucket) const { return nth(weights_, bucket).offloaded >= 0; }
  // Of a bucket that is not whole on every rank: this rank's slice is brought to the device, where
  // it is offloaded; gathered; and released again.
  void fetch(int bucket);
  void gather(int bucket);
  void release(int bucket);
  Tensor weight(int param) const;  // while its bucket is whole here; what is computed waits for it

  void forget_events();

  // Adds the squares of this rank's reduced slices to an fp64 number, where it answers for them.
  void add_sum_of_squares(const Tensor& total);
  void publish();
  void initialize(uint64_t seed);
  void visit(Visit what, const std::function<void(OwnedPart&)>& visitor);
  void append_fields(Visit what, std::vector<std::vector<ShardField>>& fields) const;
  void restore_from_owned();

 private:
  struct Weights {
    Tensor kept;         // whole bucket, or this rank's slice of it
    int offloaded = -1;  // or the number of that slice, where it is not on the device
    Tensor gathered;     // whole bucket while live, where only a slice is kept
    Event gathered_at{};
    bool sharded = false;
  };
  void make_weights(int bucket);
  void make_shard(int bucket);
  void make_slots(Shard& shard, int64_t numel);
  void refresh_copies();
  void store_offloaded();
  bool has_whole_state() const;
  int shard_rank() const { return has_whole_state() ? -1 : comm_.rank(); }
  // Of the slice `rank`, or of the whole bucket with rank < 0; parameters as the store counts them.
  std::vector<ShardField> fields_of(int bucket, int rank) const;
  bool visits(Visit what) const { return what == Visit::kRestore || answers_; }

  const ZeroOptions& options_;
  const DType dtype_;
  const std::vector<SlotSpec> slot_specs_;
  const std::vector<Param> params_;
  Communicator& comm_;  // of the key's shard axis
  const bool answers_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  OffloadedWeights* const offloaded_;
  const BucketLayout layout_;
  std::vector<Weights> weights_;
  std::unique_ptr<GradReducer> grads_;
  std::vector<Shard> shards_;
};

}  // namespace ds
