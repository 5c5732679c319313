// OptimizerStateStore: where the optimizer state of a rank's slices lives, and with it the
// gradients that wait for the update. A state store hands its state out part by part, always in the
// same order: the update, checkpoints, what initialises and what restores are all visits, and none
// of them knows whether a part lay in the device's memory, the host's, or a swap file.
//
//   device   parts are tensors of the device, and weights of the masters' dtype among them
//   host     parts lie in the host's memory, are updated by the CPU, and send their weights back
//   rolling  parts lie in the swap file of the rank, and pass through a few buffers of the host
//   split    a share of every slice in one state store, the rest in another
//
// What arithmetic a gradient needs on its way (sums over micro-steps, the norm) is done by who
// brings it, on whole slices of the device: that is why every state store, and every cut, gives the
// same bits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory/adaptors.h"
#include "offload/staging_pool.h"
#include "offload/swapper.h"
#include "optim/optimizer.h"
#include "zero/layout/bucket_slots.h"
#include "zero/layout/state_parts.h"
#include "zero/state/open_part.h"
#include "zero/state/speculative_update.h"
#include "zero/state/state_slice.h"

namespace ds {

// What an update is made with.
struct StateUpdate {
  const Optimizer& optimizer;
  const UpdateGroup& group;
  const Stream& compute;              // of the device
  const StepScalars& scalars;         // there
  const StepScalars* host = nullptr;  // the same ones; null: no state lies beside the device
  // Returns what the optimizer adds up of all parts of all ranks, in the host's memory; collective.
  std::function<Tensor()> sums = nullptr;
};

class OptimizerStateStore {
 public:
  virtual ~OptimizerStateStore() = default;

  virtual std::span<const StatePart> parts() const = 0;
  // One part after the other. Its tensors may be used during its visit alone; what the work left
  // in `copy` is on its way to the weights when the visit returns, in the order of the computing
  // stream.
  using Work = PartWork;
  virtual void visit(PartAccess access, const Work& work) = 0;
  // Updates all parts with the gradients that were stored last, each where it lies.
  virtual void update(const StateUpdate& update);
  // What it keeps beside the optimizer's own state that is no number per weight, of which there is
  // none by default: the same on all ranks. write_back() has it, and the slots, show what is;
  // take_back() goes on from what was restored.
  virtual std::vector<AuxiliarySpec> auxiliary() const { return {}; }
  virtual void write_back(std::span<const Tensor> /*auxiliary*/) const {}
  virtual void take_back(std::span<const Tensor> /*auxiliary*/) {}
  // All parts at once, for rules that need more than one; empty where they are not open at once.
  virtual std::span<Shard> resident() { return {}; }
  // The parts on the device, which need no visit; none where all lie beside it.
  using Look = std::function<void(const StatePart&, const Shard&)>;
  virtual void each_on_device(const Look& /*look*/) {}

  // Keeps a gradient, in the order of the stream's work: that of this rank's slice of a bucket.
  virtual void store_gradient(int bucket, const Tensor& slice, Stream& stream) = 0;
  // Keeps a gradient in the same way; it is that of the whole step.
  virtual void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) {
    store_gradient(bucket, slice, stream);
  }
  // What was stored last of the bucket.
  virtual void load_gradient(int bucket, const Tensor& slice, Stream& stream) = 0;

  // If a state store can, it works on parts before the visit with kUpdate, as soon as their
  // gradients are final, and keeps what they were. It calls `work` on another thread. `work` makes
  // a copy if there is a place for one, which is not where others see it. What was begun before has
  // to be ended first.
  virtual void begin_ahead(const Work& /*work*/) {}
  // Waits for gradients on their way, not for the work on them.
  virtual void hand_over_ahead() {}
  // Waits for all work ahead. kUndo: everything is as it was.
  virtual void end_ahead(SpeculativeUpdate::Verdict /*verdict*/) {}
};

struct StateOptions {
  std::vector<SlotSpec> slots;
  DType grad_dtype = DType::kF32;
  DType master_dtype = DType::kF32;
  DType weight_dtype = DType::kF32;
  StateShare share{};
  int64_t part_numel = INT64_MAX;
  std::string name = "0";  // of the group, among those of the rank
};

// State in tensors of the computing stream. Weights of the masters' dtype are their own masters.
std::unique_ptr<OptimizerStateStore> make_device_state(const StateOptions& options,
                                                       std::span<const StateSlice> slices,
                                                       Stream& compute);

// What state stores beside the device are made of; all of it outlives them.
struct HostPlace {
  Stream& stream;          // of the CPU, whose memory is the host's
  MemoryResource* pinned;  // where there is some; null: the stream's memory
  // This stream of the CPU belongs to the thread that works ahead, or late, alone. Null: none does.
  Stream* updater = nullptr;
};
std::unique_ptr<OptimizerStateStore> make_host_state(const StateOptions& options,
                                                     std::span<const StateSlice> slices,
                                                     Stream& compute, const HostPlace& host);

// A SwapSpace is where a rank may swap to.
struct SwapSpace {
  // Makes a swap file; null on meta. Throws what Swapper() throws.
  std::function<std::unique_ptr<Swapper>(int64_t bytes)> open;
  MemoryAccount& account;  // of Tier::kNvme
  Stream* disk = nullptr;  // on meta: whose clock is that of the file
};
struct NvmeStateOptions {
  int buffers = 4;  // of one part each
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool fast_init = false;  // parts are written behind while they are filled
  Pinning pinning = Pinning::kIfPossible;
};
// DiskFull where the swap file has no room, before anything is computed.
std::unique_ptr<OptimizerStateStore> make_nvme_state(const StateOptions& options,
                                                     std::span<const StateSlice> slices,
                                                     Stream& compute, const HostPlace& host,
                                                     const SwapSpace& swap,
                                                     const NvmeStateOptions& rolling);

// The parts of `first`, then those of `second`, which have the rest of each slice.
std::unique_ptr<OptimizerStateStore> make_split_state(std::unique_ptr<OptimizerStateStore> first,
                                                      std::unique_ptr<OptimizerStateStore> second);

}  // namespace ds
