// How the slices of a bucket's weights come together on every rank, as stage 3 wants them: as they
// are, or as int8 codes that every rank makes weights of again, its own slice too, so that all
// ranks compute with the same bits (qwZ of ZeRO++, arXiv 2306.10209).
//
// With a secondary copy (hpZ) the first gather of a bucket in a micro-step, for the forward pass,
// goes over all ranks, and of what has come each rank keeps the part that is its own among those
// near it. The later ones, for the backward pass, go over these alone. What is kept is what has
// travelled: codes, where codes do. Every micro-step does the same, so that one plan is for all.
//
// A CPU with a thread that talks to peers makes weights of codes when they are used first, by who
// uses them: meanwhile the thread sends the next ones. A GPU does so at once, beside what it
// computes.
#pragma once

#include <optional>
#include <vector>

#include "comm/contract/communicator.h"
#include "zero/reduce/slice_codes.h"

namespace ds {

struct WeightGatherOptions {
  bool quantized = false;
  bool secondary = false;
};

class WeightGather {
 public:
  // near: neighbours among all, in the same order. All of these must outlive it.
  WeightGather(const WeightGatherOptions& options, Communicator& all, Communicator& near,
               StoreStreams streams, BucketSlots& slots)
      : options_(options),
        all_(all),
        near_(near),
        streams_(streams),
        slots_(slots),
        unpacks_on_use_(streams.compute.stands_for().kind == Device::Kind::kCpu &&
                        &streams.compute != &streams.peers) {}

  // Makes the bucket's secondary copy, in memory that peers read, where one is wanted.
  void add(int bucket, int64_t slice_numel, DType dtype);
  void begin_micro_step();
  void end_micro_step() { in_micro_step_ = false; }
  // slice: this rank's. Given to the stream of the peers.
  void gather(int bucket, const Tensor& slice, Tensor& whole);
  // Makes weights of gathered codes that have arrived. It is called before the bucket is used.
  void unpack(int bucket, const Tensor& whole);
  // Gives back codes that are left of a gathered bucket which is used no more, or never was.
  void release(int bucket);

 private:
  struct Secondary {
    Tensor weights;           // this rank's part among its neighbours
    kernels::IntCodes codes;  // or as these
    bool fresh = false;       // of this micro-step
  };
  Secondary* secondary(int bucket);
  struct Packed {
    kernels::IntCodes codes;
    kernels::IntQuant how;
  };
  std::optional<Packed>& packed(int bucket);
  void gather_codes(int bucket, const Tensor& slice, Tensor& whole, Secondary* keep);
  void gather_near(int bucket, const Secondary& from, int64_t slice_numel, Tensor& whole);
  void make_weights(int bucket, CodeWork& work, const SliceFormat& format, kernels::IntCodes& codes,
                    const Tensor& whole);
  int64_t slices_near() const { return all_.size() / near_.size(); }

  const WeightGatherOptions options_;
  Communicator& all_;
  Communicator& near_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  const bool unpacks_on_use_;
  std::vector<std::optional<Secondary>> secondaries_;  // by bucket
  std::vector<std::optional<Packed>> packed_;          // by bucket
  bool in_micro_step_ = false;
};

}  // namespace ds
