#include "zero/state/frozen_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/device/host_copy.h"
#include "core/values/index.h"

namespace ds {
namespace {

class FrozenWeights final : public OptimizerStateStore {
 public:
  FrozenWeights(std::vector<FrozenSlice> slices, FrozenForm form, const StoreStreams& streams,
                BucketSlots& slots)
      : form_(std::move(form)), streams_(streams), slots_(slots), slices_(std::move(slices)) {
    for (const FrozenSlice& slice : slices_) {
      parts_.push_back({.bucket = narrow<int>(parts_.size()), .begin = 0, .numel = slice.numel});
      Shard& shard = shards_.emplace_back();
      if (is_seen_in_place(slice)) shard.master = slice.kept;
      shard.fields = slice.fields;
      is_resident_ = is_resident_ && shard.master.defined();
    }
    is_made_.resize(parts_.size());
    if (form_.code) {
      unfit_ = Tensor::zeros({1}, DType::kI32, streams_.compute, MemoryTag::kScratch);
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
      } else if (form_.code) {
        visit_codes(access, i, open, work);
      } else {
        visit_elsewhere(access, i, open, work);
      }
      if (makes_weights(access)) is_made_[i] = true;
    }
  }

  void store_gradient(int bucket, const Tensor& /*slice*/, Stream& /*stream*/) override {
    throw InternalError(fmt::format("frozen weights: bucket {} was given a gradient", bucket));
  }
  void load_gradient(int bucket, const Tensor& /*slice*/, Stream& /*stream*/) override {
    throw InternalError(fmt::format("frozen weights: bucket {} has no gradient", bucket));
  }

 private:
  bool is_seen_in_place(const FrozenSlice& slice) const {
    return slice.kept.defined() && !form_.code;
  }
  static bool is_elsewhere(const FrozenSlice& slice) { return slice.elsewhere.keeper != nullptr; }

  // What is filled has no weights yet, nor has what is restored first.
  bool begins(PartAccess access, size_t i) const {
    return access == PartAccess::kFill || (access == PartAccess::kChange && !is_made_[i]);
  }

  Tensor bring(const FrozenSlice& slice) {
    Tensor brought = slice.elsewhere.keeper->take(slice.elsewhere.slice);
    streams_.compute.wait(streams_.peers.mark());  // which it has come for
    return brought;
  }

  void keep(const FrozenSlice& slice, const Tensor& made) {
    slice.elsewhere.keeper->store(slice.elsewhere.slice, 0, made);
    slice.elsewhere.keeper->end_stores();
  }

  void visit_elsewhere(PartAccess access, size_t i, OpenPart& open, const Work& work) {
    const FrozenSlice& slice = slices_[i];
    Tensor weights =
        begins(access, i) ? slots_.take(slice.numel, form_.dtype, streams_.compute) : bring(slice);
    open.shard.master = weights;
    work(open);
    open.shard.master = Tensor();
    if (makes_weights(access)) keep(slice, weights);
    slots_.give_back(weights, streams_.compute);
  }

  void visit_codes(PartAccess access, size_t i, OpenPart& open, const Work& work) {
    const FrozenSlice& slice = slices_[i];
    const bool is_new = begins(access, i);
    Tensor codes = slice.kept;
    if (is_elsewhere(slice)) {
      codes = is_new ? slots_.take(form_.code->bytes(slice.numel), DType::kU8, streams_.compute)
                     : bring(slice);
    }
    Tensor weights = slots_.take(slice.numel, DType::kF32, streams_.compute);
    if (is_new) {
      // Blocks may have padding.
      streams_.compute.fill_bytes(weights.address(), 0, weights.bytes());
    } else {
      kernels::unpack_blocks(streams_.compute, codes, *form_.code, weights);
    }
    open.shard.master = weights;
    work(open);
    open.shard.master = Tensor();
    if (makes_weights(access)) {
      pack(weights, codes, slice);
      if (is_elsewhere(slice)) keep(slice, codes);
    }
    slots_.give_back(weights, streams_.compute);
    if (is_elsewhere(slice)) slots_.give_back(codes, streams_.compute);
  }

  void pack(const Tensor& weights, const Tensor& codes, const FrozenSlice& slice) {
    Stream& stream = streams_.compute;
    stream.fill_bytes(unfit_.address(), 0, unfit_.bytes());
    kernels::pack_blocks(stream, weights, *form_.code, codes, unfit_);
    HostCopy through(stream, sizeof(double));  // the smallest parts that there are
    bool fits = true;
    through.down(unfit_, [&](int64_t /*first*/, const Tensor& count) {
      fits = count.data<int32_t>()[0] == 0;
    });
    if (!fits) refuse(weights, slice);
  }

  // The first weight that a scale does not stand for, by its parameter and its place in it.
  [[noreturn]] void refuse(const Tensor& weights, const FrozenSlice& slice) {
    const bool is_short = form_.code->scale == kernels::BlockScale::kFp8;
    int64_t place = -1;
    float value = 0;
    HostCopy through(streams_.compute);
    through.down(weights, [&](int64_t first, const Tensor& part) {
      for (int64_t i = 0; place < 0 && i < part.numel(); ++i) {
        value = part.data<float>()[i];
        if (!kernels::scale_fits(form_.code->scale, std::abs(value))) place = first + i;
      }
    });
    const auto of = std::ranges::find_if(slice.fields, [&](const ShardField& field) {
      return place >= field.offset && place < field.offset + field.numel;
    });
    DS_CHECK(of != slice.fields.end() && form_.name, "frozen weights: a block that fits nowhere");
    throw DataError(fmt::format(
        "lora.base_format: element {} of {} is {}, expected a number{}",
        of->param_begin + place - of->offset, form_.name(of->param), value,
        is_short ? " of at most 62, the largest scale of 8 bits; \"double_quantization\": false "
                   "keeps scales in fp32"
                 : ""));
  }

  const FrozenForm form_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  const std::vector<FrozenSlice> slices_;
  std::vector<StatePart> parts_;
  std::vector<Shard> shards_;  // without a master where that lies elsewhere, or is made of codes
  std::vector<bool> is_made_;  // by part: its weights have been given once
  Tensor unfit_;               // what codes cannot stand for, of the last slice
  bool is_resident_ = true;
};

}  // namespace

std::unique_ptr<OptimizerStateStore> make_frozen_weights(std::vector<FrozenSlice> slices,
                                                         FrozenForm form,
                                                         const StoreStreams& streams,
                                                         BucketSlots& slots) {
  return std::make_unique<FrozenWeights>(std::move(slices), std::move(form), streams, slots);
}

}  // namespace ds
