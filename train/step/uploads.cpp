#include "train/step/uploads.h"

#include <optional>

#include "core/device/background_log.h"
#include "core/status/error.h"
#include "core/values/index.h"

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
      batch_bytes_(options.batch_bytes),
      inputs_(Tensor::empty({options.buffers * narrow<int64_t>(sizeof(MicroInputs))}, DType::kU8,
                            stream, MemoryTag::kScratch)),
      staged_inputs_(sizeof(MicroInputs), kInputsAhead * options.buffers, options.pinned),
      batches_(to_size(options.batch_bytes), places_for(options), options.pinned) {}

const MicroInputs* StepUploads::place(int buffer, const MicroInputs& inputs) {
  constexpr auto kBytes = narrow<int64_t>(sizeof(MicroInputs));
  const Tensor to = inputs_.narrow(buffer * kBytes, kBytes);
  staged_inputs_.copy(&inputs, to.address(), sizeof inputs, stream_);
  return static_cast<const MicroInputs*>(to.address());
}

MicroBatch StepUploads::take_batch(const BatchSpec& spec) {
  DS_CHECK(spec.bytes() <= batch_bytes_, "step: a micro-batch of {} bytes, room for {}",
           spec.bytes(), batch_bytes_);
  return {spec, Tensor::borrow(batches_.take(), {spec.bytes()}, DType::kU8)};
}

Event StepUploads::copy(const Tensor& from, const Tensor& to) {
  DS_CHECK(from.bytes() == to.bytes(), "step: {} bytes go to a tensor of {}", from.bytes(),
           to.bytes());
  const bool apart = &copies_ != &stream_;
  std::optional<BackgroundSpan> span;
  if (apart) {
    copies_.wait(stream_.mark());
    span.emplace(copies_, BackgroundKind::kToDevice, BackgroundName{.what = "batch"},
                 narrow<int64_t>(to.bytes()));
  }
  copies_.copy(from.address(), to.address(), to.bytes());
  span.reset();
  const Event copied = copies_.mark();
  if (apart) stream_.wait(copied);
  return copied;
}

}  // namespace ds
