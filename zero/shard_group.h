// ShardGroup: parameters of one dtype whose state is sharded over the same ranks and repeated by
// the same others, with buckets, weights, gradients and shards of their own. The sharded store has
// one for each kind of parameter that a model has: dense ones, experts, those of another dtype,
// those that do not train. A group of these has weights alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "kernels/quantize/block_codes.h"
#include "model/pass/param.h"
#include "optim/optimizer.h"
#include "zero/layout/bucket_layout.h"
#include "zero/layout/bucket_slots.h"
#include "zero/reduce/quantized_reduce.h"
#include "zero/state/auxiliary_state.h"
#include "zero/weight_gather.h"
#include "zero/zero_options.h"

namespace ds {

// What parameters have in common that share buckets.
struct GroupKey {
  DType dtype = DType::kF32;
  Axis shard = Axis::kData;      // over its ranks state is cut into slices, and gradients summed
  std::vector<Axis> summed{};    // their ranks have the same slices, and other parts of the sum
  std::vector<Axis> repeated{};  // their ranks have the same slices, and the same gradients
  std::optional<DType> wire{};   // of gradients on their way to other ranks; nothing: as written
  TouchedRows rows{};            // of tables of which only these travel
  int kind = 0;                  // of the optimizer's
  bool trains = true;            // else nothing is summed
  bool second_model = false;     // see ParamSpec
  std::optional<kernels::BlockCode> code{};  // as which frozen weights are kept; nothing: as such
  bool operator==(const GroupKey&) const = default;
};
// This says where state lies that is not on the device. What it names outlives the store.
struct OffloadPlace {
  Stream* host = nullptr;            // null: nothing is offloaded here
  Stream* updater = nullptr;         // of the host, and of who works ahead; null: nobody does
  MemoryResource* pinned = nullptr;  // of a device that copies to and from it
  MemoryAccount* nvme = nullptr;     // books of the swap file; null: nothing is swapped
  Stream* disk = nullptr;            // on meta: whose clock is that of the swap file
  std::function<std::unique_ptr<Swapper>(int64_t bytes)> open_swap = nullptr;  // null on meta
};

// This says where a store puts what its policy offloads.
struct OffloadPlaces {
  WeightPlaces weights{};
  OffloadPlace state{};
};

// What the groups of a store share; all of it outlives them.
struct GroupPlace {
  Mesh& mesh;
  StoreStreams streams;
  BucketSlots& slots;
  OffloadedWeights* offloaded;  // keeps weights that the policy offloads; may be null without
  const OffloadPlace& state;
};

// Kind and rows are left as they are by default.
GroupKey group_key(const ParamSpec& spec, const ZeroOptions& options);
// Returns what travels of a table's gradient if only touched rows do, else nothing. The parameter
// has `uses` uses per micro-step, and `ranks` ranks reduce its gradient as `key` says.
TouchedRows touched_rows(const ParamSpec& spec, int uses, const GroupKey& key,
                         const ZeroOptions& options, int ranks);

// What this rank alone answers for, at any stage: slice `rank` of a bucket, or a part of it.
// Written to checkpoints.
struct OwnedPart {
  Tensor master;                    // fp32, whatever it is kept as
  std::vector<Tensor> slots;        // fp32 each, however they are kept
  std::span<const SlotSpec> specs;  // of the slots
  const std::vector<ShardField>& fields;
  Stream& stream;  // whose device they are on
  // The slot that has weights which are seen in place of the masters for now; -1: none has.
  int seen_slot = -1;
};

class ShardGroup {
 public:
  struct Param {
    ParamId id;
    const ParamSpec* spec;
    int uses = 1;
    int options = 0;  // group of options, of the optimizer's
  };

  // The options outlive the group. `name` is its own among the groups of the rank.
  ShardGroup(const ZeroOptions& options, const GroupKey& key, std::vector<Param> params,
             const GroupPlace& place, std::string name = "0");
  ShardGroup(const ShardGroup&) = delete;  // its sink refers to its layout
  ShardGroup& operator=(const ShardGroup&) = delete;

  const BucketLayout& layout() const { return layout_; }
  Communicator& comm() const { return comm_; }
  // All that this rank updates, where it is open at once: on the device.
  std::span<Shard> shards() { return state_->resident(); }
  bool trains() const { return key_.trains; }
  const GroupKey& key() const { return key_; }
  // Slots that checkpoints know as such.
  std::span<const SlotSpec> slot_specs() const;
  OptimizerStateStore& state() { return *state_; }
  // A group that trains has one. Parameters are counted within the group here, buckets everywhere.
  GradientSink& grads() { return *grads_; }

  bool is_gathered_on_use(int bucket) const {
    return key_.code.has_value() || nth(weights_, bucket).sharded;
  }
  bool shards_weights() const;
  bool offloads_weights(int bucket) const { return nth(weights_, bucket).offloaded >= 0; }
  // These are for a bucket that is gathered on use: this rank's slice is brought to the device if
  // it is offloaded, gathered, and released again. Codes are made weights of when weight() is
  // called first, by the stream that computes.
  void fetch(int bucket);
  void gather(int bucket);
  void release(int bucket);
  Tensor weight(int param);  // while its bucket is whole here; what is computed waits for it

  // Around all that a step reduces. scalars: of the finished step.
  void begin_step(GradientsOf gradients, int64_t step);
  void end_step(const StepScalars& scalars);

  // Weights that are gathered between these are kept near, where the policy says so.
  void begin_micro_step() { gather_.begin_micro_step(); }
  void end_micro_step() { gather_.end_micro_step(); }

  void forget_events();

  // Adds the squares of this rank's reduced slices to an fp64 number, where it answers for them.
  void add_sum_of_squares(const Tensor& total);
  // places: of all parameters, as the store counts them. `host`: the same scalars in memory of the
  // host; null: nothing is offloaded. `number`: of the update, where the optimizer is staged.
  void update(const Optimizer& optimizer, std::span<const ParamPlace> places,
              const StepScalars& scalars, const StepScalars* host, const UpdateNumber& number);
  // As OptimizerStateStore has it. `expected`: by what the update of the step is made, in memory of
  // the host; it stays until the end.
  void begin_ahead(const Optimizer& optimizer, std::span<const ParamPlace> places,
                   const StepScalars& expected);
  void publish();
  void initialize(uint64_t seed);
  void visit(Visit what, const std::function<void(OwnedPart&)>& visitor);
  // State that is no number per weight, in the same order every time; what is `what` of it as of
  // the other parts: kSave shows shared ones on the first rank alone.
  void visit_auxiliary(Visit what, const std::function<void(AuxiliaryPart&)>& visitor);
  void append_fields(Visit what, std::vector<std::vector<ShardField>>& fields) const;
  void restore_from_owned();

 private:
  struct Weights {
    Tensor kept;         // whole bucket, or this rank's slice of it; or the codes of either
    Tensor codes;        // of the whole bucket, gathered, of which no weights were made yet
    int offloaded = -1;  // or the number of that slice, where it is not on the device
    Tensor gathered;     // whole bucket while live, where only a slice is kept
    PeerPoint gathered_at{};
    bool sharded = false;
  };
  void make_weights(int bucket);
  void make_frozen();
  int64_t kept_numel(int64_t weights) const;
  void unpack(int bucket);
  void give_back_codes(Weights& weights, Stream& by);
  WeightMaker weight_maker() const;
  std::vector<StateSlice> state_slices() const;
  void make_auxiliary();
  void settle_restored();
  bool has_agreed_weights() const;
  void make_gradients(const GroupKey& key, Mesh& mesh, OptimizerStateStore* keeper);
  UpdateGroup update_group(std::span<const ParamPlace> places = {}) const;
  Tensor shown_weights(const Shard& shard) const;
  std::unique_ptr<OptimizerStateStore> make_state(const OffloadPlace& offload,
                                                  std::string name) const;
  std::unique_ptr<OptimizerStateStore> make_zenflow_state(const StateOptions& state,
                                                          std::span<const StateSlice> slices,
                                                          const HostPlace& host) const;
  std::span<const Tensor> auxiliary_of_state() const;
  int seen_slot() const;
  Tensor sums_of(const Optimizer& optimizer, const UpdateGroup& group, const StepScalars& host);
  static void refresh_copy(const Shard& shard, Stream& stream);
  void store_offloaded();
  void show(const OpenPart& open, Visit what, const std::function<void(OwnedPart&)>& visitor);
  bool has_whole_state() const;
  int shard_rank() const { return has_whole_state() ? -1 : comm_.rank(); }
  // Returns the fields of slice `rank`, or of the whole bucket if rank < 0. Parameters are numbered
  // as the store counts them.
  std::vector<ShardField> fields_of(int bucket, int rank) const;
  struct OwnedRange {
    int64_t begin = 0;       // of this rank's own, in the tensors of a part
    StatePart within_slice;  // where that lies in its slice
  };
  OwnedRange owned_range(const StatePart& part) const;
  const ParamSpec* spec_of(ParamId id) const;
  bool visits(Visit what) const { return what == Visit::kRestore || answers_; }

  const ZeroOptions& options_;
  const GroupKey key_;
  const std::vector<SlotSpec> slot_specs_;
  const bool sees_parameters_;  // the optimizer, which is why slices are not cut into parts
  const std::vector<Param> params_;
  Communicator& comm_;  // of the key's shard axis
  const bool answers_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  Stream* const host_;  // where state lies beside the device; null: nothing does
  OffloadedWeights* const offloaded_;
  const BucketLayout layout_;
  WeightGather gather_;
  std::optional<QuantizedReduce> quantized_reduce_;
  std::vector<Weights> weights_;
  std::unique_ptr<GradientSink> grads_;  // null: the group does not train
  std::unique_ptr<OptimizerStateStore> state_;
  AuxiliaryState auxiliary_;  // the optimizer's, then those of state_
};

}  // namespace ds
