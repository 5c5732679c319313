#include "zero/state/frozen_weights.h"

#include <utility>
#include <vector>

#include "core/values/index.h"

namespace ds {
namespace {

class FrozenWeights final : public OptimizerStateStore {
 public:
  FrozenWeights(std::span<const StateSlice> slices, DType dtype, const StoreStreams& streams,
                BucketSlots& slots)
      : dtype_(dtype), streams_(streams), slots_(slots) {
    for (const StateSlice& slice : slices) {
      parts_.push_back({.bucket = narrow<int>(parts_.size()), .begin = 0, .numel = slice.numel()});
      Shard& shard = shards_.emplace_back();
      shard.master = slice.weights;
      shard.fields = slice.fields;
      elsewhere_.push_back(slice.elsewhere);
      is_resident_ = is_resident_ && slice.weights.defined();
    }
  }

  std::span<const StatePart> parts() const override { return parts_; }
  std::span<Shard> resident() override { return is_resident_ ? shards_ : std::span<Shard>(); }

  void visit(PartAccess access, const Work& work) override {
    DS_CHECK(!takes_gradients(access), "frozen weights: an update of what does not train");
    for (size_t i = 0; i < parts_.size(); ++i) {
      Shard shard = shards_[i];
      OpenPart open{.part = parts_[i], .shard = shard, .stream = streams_.compute};
      if (shard.master.defined()) {
        work(open);
      } else {
        visit_elsewhere(access, elsewhere_[i], open, work);
      }
    }
  }

  void store_gradient(int bucket, const Tensor& /*slice*/, Stream& /*stream*/) override {
    throw InternalError(fmt::format("frozen weights: bucket {} was given a gradient", bucket));
  }
  void load_gradient(int bucket, const Tensor& /*slice*/, Stream& /*stream*/) override {
    throw InternalError(fmt::format("frozen weights: bucket {} has no gradient", bucket));
  }

 private:
  void visit_elsewhere(PartAccess access, const OffloadedSlice& slice, OpenPart& open,
                       const Work& work) {
    // What is filled has no weights yet, nor has what is restored first.
    const bool begins = access == PartAccess::kFill ||
                        (access == PartAccess::kChange && !slice.keeper->is_there(slice.slice));
    Tensor weights = begins ? slots_.take(slice.numel, dtype_, streams_.compute)
                            : slice.keeper->take(slice.slice);
    streams_.compute.wait(streams_.peers.mark());  // which it has come for
    open.shard.master = weights;
    work(open);
    open.shard.master = Tensor();
    if (makes_weights(access)) {
      slice.keeper->store(slice.slice, 0, weights);
      slice.keeper->end_stores();
    }
    slots_.give_back(weights, streams_.compute);
  }

  const DType dtype_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  std::vector<StatePart> parts_;
  std::vector<Shard> shards_;              // without a master where that lies elsewhere
  std::vector<OffloadedSlice> elsewhere_;  // by part
  bool is_resident_ = true;
};

}  // namespace

std::unique_ptr<OptimizerStateStore> make_frozen_weights(std::span<const StateSlice> slices,
                                                         DType dtype, const StoreStreams& streams,
                                                         BucketSlots& slots) {
  return std::make_unique<FrozenWeights>(slices, dtype, streams, slots);
}

}  // namespace ds
