#include "zero/state/auxiliary_state.h"

#include <utility>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {

void begin_anew(AuxiliaryPart& part) {
  if (part.values.dtype() == DType::kF32) {
    kernels::fill(part.stream, part.values, part.spec.initial);
  } else {
    part.stream.fill_bytes(part.values.address(), 0, part.values.bytes());
  }
  part.lost = true;
}

AuxiliaryState::AuxiliaryState(std::vector<AuxiliarySpec> specs, int rank, int ranks,
                               Stream& stream)
    : specs_(std::move(specs)), rank_(rank), ranks_(ranks), stream_(&stream) {
  for (const AuxiliarySpec& spec : specs_) {
    Tensor& made = values_.emplace_back(
        Tensor::empty({spec.numel}, DType::kF32, stream, MemoryTag::kOptimizer));
    kernels::fill(stream, made, spec.initial);
  }
}

void AuxiliaryState::visit(Visit what, bool saves_shared,
                           const std::function<void(AuxiliaryPart&)>& visitor) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    const bool shared = specs_[i].scope == AuxiliaryScope::kShared;
    if (shared && what == Visit::kSave && !saves_shared) continue;
    AuxiliaryPart part{.spec = specs_[i],
                       .values = values_[i],
                       .rank = rank_,
                       .ranks = ranks_,
                       .stream = *stream_};
    visitor(part);
    if (part.lost) lost_.push_back(i);
  }
}

void AuxiliaryState::begin_lost(std::span<const Shard> shards) {
  for (const size_t lost : std::exchange(lost_, {})) {
    const AuxiliarySpec& spec = specs_[lost];
    for (const Shard& shard : shards) {
      for (const ShardField& field : shard.fields) {
        if (spec.like_slot < 0 || field.param != spec.param) continue;
        const Tensor from = nth(shard.slots, spec.like_slot).narrow(field.offset, field.numel);
        stream_->copy(from.address(), values_[lost].address(), from.bytes());
      }
    }
  }
}

}  // namespace ds
