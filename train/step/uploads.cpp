#include "train/step/uploads.h"

#include "core/error.h"
#include "core/index.h"

namespace ds {
namespace {

// The host writes one while the device still copies from the other. On a CPU copies are done when
// they have been given.
int places_for(const StepUploads::Options& options) { return options.pinned != nullptr ? 2 : 1; }

}  // namespace

StepUploads::StepUploads(const Options& options, Stream& stream)
    : stream_(stream),
      copies_(options.copies != nullptr ? *options.copies : stream),
      tokens_(options.tokens),
      batches_(4 * to_size(options.tokens) * sizeof(int32_t), places_for(options), options.pinned) {
}

StepUploads::Batch StepUploads::take_batch() {
  const size_t numel = to_size(tokens_);
  const std::span all(reinterpret_cast<int32_t*>(batches_.take()), 4 * numel);
  return {all.first(numel), all.subspan(numel, numel), all.last(2 * numel)};
}

Event StepUploads::copy(std::span<const Copy> all) {
  const bool apart = &copies_ != &stream_;
  if (apart) copies_.wait(stream_.mark());
  for (const Copy& one : all) {
    DS_CHECK(one.from.size_bytes() == one.to.bytes(), "step: {} bytes go to a tensor of {}",
             one.from.size_bytes(), one.to.bytes());
    copies_.copy(one.from.data(), one.to.address(), one.to.bytes());
  }
  const Event copied = copies_.mark();
  if (apart) stream_.wait(copied);
  return copied;
}

}  // namespace ds
