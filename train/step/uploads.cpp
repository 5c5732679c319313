#include "train/step/uploads.h"

#include <optional>

#include "core/error.h"
#include "core/index.h"
#include "core/memory/beside_log.h"

namespace ds {
namespace {

// Far more than the host may be ahead of the device, which batches see to.
constexpr int kInputsAhead = 8;

// The host writes one while the device still copies from the other. On a CPU copies are done when
// they have been given.
int places_for(const StepUploads::Options& options) { return options.pinned != nullptr ? 2 : 1; }

}  // namespace

StepUploads::StepUploads(const Options& options, Stream& stream)
    : stream_(stream),
      copies_(options.copies != nullptr ? *options.copies : stream),
      tokens_(options.tokens),
      inputs_(Tensor::empty({options.buffers * narrow<int64_t>(sizeof(MicroInputs))}, DType::kU8,
                            stream, MemoryTag::kScratch)),
      staged_inputs_(sizeof(MicroInputs), kInputsAhead * options.buffers, options.pinned),
      batches_(4 * to_size(options.tokens) * sizeof(int32_t), places_for(options), options.pinned) {
}

const MicroInputs* StepUploads::place(int buffer, const MicroInputs& inputs) {
  constexpr auto kBytes = narrow<int64_t>(sizeof(MicroInputs));
  const Tensor to = inputs_.narrow(buffer * kBytes, kBytes);
  staged_inputs_.copy(&inputs, to.address(), sizeof inputs, stream_);
  return static_cast<const MicroInputs*>(to.address());
}

StepUploads::Batch StepUploads::take_batch() {
  const size_t numel = to_size(tokens_);
  const std::span all(reinterpret_cast<int32_t*>(batches_.take()), 4 * numel);
  return {all.first(numel), all.subspan(numel, numel), all.last(2 * numel)};
}

Event StepUploads::copy(std::span<const Copy> all) {
  const bool apart = &copies_ != &stream_;
  std::optional<BesideSpan> span;
  if (apart) {
    copies_.wait(stream_.mark());
    int64_t bytes = 0;
    for (const Copy& one : all) bytes += narrow<int64_t>(one.to.bytes());
    span.emplace(copies_, BesideKind::kToDevice, BesideName{.what = "batch"}, bytes);
  }
  for (const Copy& one : all) {
    DS_CHECK(one.from.size_bytes() == one.to.bytes(), "step: {} bytes go to a tensor of {}",
             one.from.size_bytes(), one.to.bytes());
    copies_.copy(one.from.data(), one.to.address(), one.to.bytes());
  }
  span.reset();
  const Event copied = copies_.mark();
  if (apart) stream_.wait(copied);
  return copied;
}

}  // namespace ds
