// Which GradientSink a group of parameters gets. The choice is made here, once:
//
//   LocalSink        alone, state on the device
//   WholeSink        stage 0: whole sums on every rank
//   SlicedSink       stages 1 to 3: slices of sums; the stages differ in whether buckets are kept
//   RowSink          stage 0, tables of which only touched rows travel
//   Offloaded...     state beside the device, which keeps the sums
//   AskedSink        of one of the first two: gradients are summed where a step asks for it
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "zero/layout/bucket_layout.h"
#include "zero/layout/policy.h"
#include "zero/reduce/gradient_sink.h"
#include "zero/reduce/row_exchange.h"
#include "zero/reduce/slice_reduction.h"

namespace ds {

class OptimizerStateStore;

// When gradients are summed over ranks.
enum class Reduce : uint8_t {
  kEachMicroStep,
  // Pipelines have several micro-batches under way, whose contributions come in turn.
  kStepEnd,
  // At the end of steps, and only of those that say so (zero/reduce/asked_sink.h).
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
  // Parameters are tables of which others are sent only what is touched (rows_touched()).
  TouchedRows rows{};
};

// With whom gradients are summed.
struct GradPeers {
  Communicator& shard;                     // each of whom keeps one slice
  std::vector<Communicator*> summed = {};  // who keep the same slices, and have other parts of them
  SliceReduction* quantized = nullptr;     // does what `shard` would; null: nothing is quantized
};

// With whom, on which streams and in which memory; all of it outlives the sink.
struct GradPlace {
  GradPeers peers;
  StoreStreams streams;
  BucketSlots& slots;
  // Keeps sums over micro-steps, of offloaded state; null: the sink does.
  OptimizerStateStore* keeper = nullptr;
};

// The layout must outlive the sink. What stays comes from slots.memory(), the rest from the slots.
// uses[i]: contributions that parameter i gets per micro-step. Unsupported where gradients or state
// that are sharded cannot be reduced when it is wanted.
std::unique_ptr<GradientSink> make_gradient_sink(const GradOptions& options,
                                                 const BucketLayout& layout, std::vector<int> uses,
                                                 const GradPlace& place);

}  // namespace ds
