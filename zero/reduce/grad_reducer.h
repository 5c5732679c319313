// The gradient side of the sharded store: where gradients are written, and how buckets are reduced.
//
// A parameter's gradient is written straight into its bucket's memory. When the last contribution
// of a bucket is there, the bucket is reduce-scattered: this rank receives the sum of its slice, in
// rank order. By default that happens once per micro-step at every stage: sums are then made in the
// same order whatever the stage, so the stages agree to the bit under gradient accumulation too. A
// stage differs only in whether the bucket's memory stays (0, 1) or lives from first contribution
// to reduction (2, 3).
//
// Pipelines have several micro-batches under way, whose contributions come in turn: they are added
// up here and reduced once, at the end of the step. That moves less (by the number of micro-steps),
// needs whole gradients, and is another order of summation.
//
// Where the state of the optimizer is offloaded, its gradients are, too: a slice is handed to the
// state store of the state as soon as it is reduced, and a sum over micro-steps is fetched from
// there to be added to. All of its arithmetic stays here, on the device and on whole slices, as
// without offload, and so do its bits.
#pragma once

#include <optional>
#include <vector>

#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "model/pass/param.h"
#include "zero/layout/bucket_layout.h"
#include "zero/layout/bucket_slots.h"
#include "zero/layout/policy.h"
#include "zero/reduce/row_exchange.h"

namespace ds {

class QuantizedReduce;
class OptimizerStateStore;

// When gradients are summed over ranks.
enum class Reduce : uint8_t {
  kEachMicroStep,
  kStepEnd,
  // At the end of steps, and only of those that say so: in others the optimizer exchanges what it
  // needs, and every rank keeps the whole of its own (1-bit Adam and its like).
  kIfAsked
};

struct GradOptions {
  Sharding sharding = Sharding::kWhole;            // of the gradients
  Sharding state = Sharding::kWhole;               // whole state needs whole gradients at the step
  DType dtype = DType::kF32;                       // as written by the backward pass
  DType slice_dtype = DType::kF32;                 // as summed over micro-steps
  std::optional<DType> wire_dtype = std::nullopt;  // as sent to other ranks; nothing: as written
  Reduce reduce = Reduce::kEachMicroStep;
  int micro_steps = 1;
  // Sums over micro-steps are kept by a OptimizerStateStore (keep_in()), and not here.
  bool offloaded = false;
  // Parameters are tables of which others are sent only what is touched (rows_touched()).
  TouchedRows rows{};
};

// With whom gradients are summed.
struct GradPeers {
  Communicator& shard;                     // each of whom keeps one slice
  std::vector<Communicator*> summed = {};  // who keep the same slices, and have other parts of them
  QuantizedReduce* quantized = nullptr;    // does what `shard` would; null: nothing is quantized
};

// With whom, on which streams and in which memory; all of it outlives the reducer.
struct GradPlace {
  GradPeers peers;
  StoreStreams streams;
  BucketSlots& slots;
};

class GradReducer {
 public:
  // The layout must outlive it. What stays comes from slots.memory(), the rest from the slots.
  // uses[i]: contributions that parameter i gets per micro-step. Unsupported where gradients or
  // state that are sharded cannot be reduced when it is wanted.
  GradReducer(const GradOptions& options, const BucketLayout& layout, std::vector<int> uses,
              GradPlace place);

  // Before the first step, where sums are kept elsewhere: by a state store that outlives the
  // reducer.
  void keep_in(OptimizerStateStore& state) { state_ = &state; }

  // The next micro-step is the first of a step.
  void begin_step(GradientsOf gradients = GradientsOf::kAllRanks);
  GradSlot slot(int param, const Shape& shape);
  void ready(int param);
  // This is called for a table before its ready(). order: the tokens by whose order the
  // contribution was made.
  void rows_touched(int param, const Tensor& order);
  // Checks that every bucket was reduced, if reduction is due each micro-step.
  void end_micro_step();
  // A micro-step like one before it has been given to the streams by others.
  void repeat_micro_step() { ++micro_step_; }
  void forget_events();
  // What is left of the reduction; with whole state the slices are gathered back to every rank.
  void end_step();
  // The sum of this rank's micro-batches alone, to be added to before end_step(); kept where
  // reduction is not due each micro-step.
  Tensor summed(int param, const Shape& shape) const;

  // If sums are kept elsewhere, these are the squares of this rank's slices, fp64 [buckets], after
  // the last micro-step.
  const Tensor& squares() const { return squares_; }
  // This rank's reduced slice of a bucket: [slice_numel], slice_dtype.
  const Tensor& slice(int bucket) const { return nth(states_, bucket).slice; }
  // The reduced whole bucket, after end_step() with whole state.
  const Tensor& whole(int bucket) const { return nth(states_, bucket).reduced; }
  // Says whose gradients the step has that was begun last.
  GradientsOf gradients() const { return gradients_; }

 private:
  struct State {
    Tensor whole;           // [numel] dtype; undefined while nothing is written (sharded gradients)
    Tensor slice;           // [slice_numel] slice_dtype; a view of `whole` where they can share
    Tensor reduced;         // [numel] slice_dtype with whole state: `whole`, unless dtypes differ
    int contributions = 0;  // still missing in this period
    PeerPoint reduced_at{};  // until then `whole` is read
  };
  // Micro-batches are added up in `whole`: nothing is reduced between them, or nobody is there.
  bool accumulates() const { return options_.reduce != Reduce::kEachMicroStep || is_alone(); }
  bool is_alone() const { return comm_.size() == 1; }
  bool exchanges_rows() const { return options_.rows.any() && !is_alone(); }
  // Contributions of a parameter in a period: a micro-step, or the step where they come in turn.
  int expected(int param) const;
  Tensor view(const Tensor& whole, int param, const Shape& shape) const;
  void check_contributions();
  void refuse_what_cannot_be() const;
  bool keeps_whole() const;
  // Whether what is reduced now is the first, or the last, of a step.
  bool begins_sum() const { return options_.reduce != Reduce::kEachMicroStep || micro_step_ == 0; }
  bool completes_sum() const {
    return options_.reduce != Reduce::kEachMicroStep || micro_step_ + 1 == options_.micro_steps;
  }
  void make_slice(int bucket);
  Tensor take_whole(int bucket);
  void reduce_kept(int bucket);
  void hand_over(int bucket);
  void hand_over_alone(int bucket);
  void store(int bucket, const Tensor& sum);
  Tensor kept_whole(int bucket);
  void make_wire();
  // A bucket as it is sent: itself, or a copy that is good until the next is sent.
  Tensor sent(const Tensor& whole) const;
  void reduce_scatter(int bucket, const Tensor& from, const Tensor& slice);
  void gather(State& state, int64_t numel);
  void reduce_rows(int bucket);
  bool narrows(const State& state) const;
  void round_as_sent(State& state);
  void clear_gaps(int bucket, Tensor& whole);
  void reduce(int bucket);

  const GradOptions options_;
  const BucketLayout& layout_;
  const std::vector<int> uses_;
  Communicator& comm_;
  const std::vector<Communicator*> summed_;
  QuantizedReduce* const quantized_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  RowExchange exchange_;
  std::vector<Tensor> touched_;  // of each parameter that is a table, from rows_touched() on
  std::vector<State> states_;
  Tensor wire_;  // room for the copy of the largest bucket, where one is needed
  OptimizerStateStore* state_ = nullptr;  // of sums that are kept elsewhere
  Tensor squares_;                        // of those
  std::vector<int> written_;              // contributions of a parameter in this period
  int micro_step_ = 0;
  GradientsOf gradients_ = GradientsOf::kAllRanks;
};

}  // namespace ds
