// The sum of a bucket's gradients over all ranks, sent as int4 codes in two hops (qgZ of ZeRO++,
// arXiv 2306.10209): among neighbours, who add up what they have of the same elements and make
// codes of the sums; then among the ranks at the same place of other neighbourhoods, who add these
// up in fp32. Each number is made a code at most twice, whatever the number of ranks, and between
// neighbourhoods a quarter of 16-bit gradients travels. What codes lose can be added to the next
// ones (zero/reduce/code_errors.h), at each hop by who makes them.
//
// Neighbours are numbered one after the other among all ranks, so that what one of them answers for
// lies apart in the bucket: slices are put in the order of the first hop when codes are made.
#pragma once

#include <string>
#include <vector>

#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "optim/optimizer.h"
#include "zero/layout/policy.h"
#include "zero/reduce/code_errors.h"
#include "zero/reduce/slice_codes.h"
#include "zero/reduce/slice_reduction.h"

namespace ds {

// What checkpoints call what is kept of errors.
inline constexpr const char* kNearErrors = "loco_near_error";
inline constexpr const char* kNearErrorScales = "loco_near_error_scale";
inline constexpr const char* kFarErrors = "loco_far_error";
inline constexpr const char* kFarErrorScales = "loco_far_error_scale";

class QuantizedReduce final : public SliceReduction {
 public:
  // near: neighbours; far: those at the same place among theirs. Rank = far * near.size() + near.
  // All of these must outlive it.
  QuantizedReduce(Communicator& near, Communicator& far, const ErrorFeedback& feedback,
                  StoreStreams streams, BucketSlots& slots)
      : near_(near), far_(far), feedback_(feedback), streams_(streams), slots_(slots) {}

  // The next bucket: 0, 1, 2, ... Its name is no other's.
  void add(const std::string& name, int64_t slice_numel);
  void reduce_scatter(int bucket, const Tensor& full, const Tensor& slice) override;

  // Before the first reduction of a step: every so many steps errors begin anew.
  void begin_step(int64_t step);
  // Once per step, when it is finished: errors follow the loss scale, and begin anew if it was
  // skipped.
  void end_step(const StepScalars& scalars);
  // What is kept of errors; none without feedback.
  struct Kept {
    AuxiliarySpec spec;
    Tensor values;  // int8 codes, or fp32 scales
  };
  std::vector<Kept> kept();

 private:
  struct Errors {
    std::string name;
    CodeErrors near, far;
  };
  bool has_two_hops() const { return near_.size() > 1 && far_.size() > 1; }
  Errors* errors_of(int bucket) { return feedback_.on ? &nth(errors_, bucket) : nullptr; }
  void quantize(CodeWork& work, const SliceFormat& format, Errors* errors, const Tensor& full,
                const kernels::IntCodes& codes);
  void exchange(Communicator& with, const kernels::IntCodes& sent,
                const kernels::IntCodes& received);
  void requantize(CodeWork& work, const SliceFormat& format, Errors* errors,
                  const kernels::IntCodes& received, const kernels::IntCodes& sums);
  // Adds up what so many ranks have sent, one slice each.
  void add_up(CodeWork& work, const SliceFormat& format, const kernels::IntCodes& codes, int ranks,
              const Tensor& slice);
  // Adds up slice `first` and those that follow it `apart` slices apart, one of each rank.
  void sum_slices(CodeWork& work, const SliceFormat& format, const kernels::IntCodes& codes,
                  int64_t first, int64_t apart, int ranks, const Tensor& sum);

  Communicator& near_;
  Communicator& far_;
  const ErrorFeedback feedback_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  std::vector<Errors> errors_;  // of each bucket
};

}  // namespace ds
