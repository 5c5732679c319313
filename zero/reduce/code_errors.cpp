#include "zero/reduce/code_errors.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/quantize/error_feedback.h"

namespace ds {
namespace {

constexpr int kErrorBits = 8;

}  // namespace

CodeErrors::CodeErrors(const SliceFormat& sent, int64_t slices, float beta, Stream& compute)
    : format_{.bits = kErrorBits, .numel = sent.numel},
      beta_(beta),
      kept_{.q = Tensor::empty({slices * format_.code_bytes()}, DType::kI8, compute,
                               MemoryTag::kOptimizer),
            .scale = Tensor::empty({slices * format_.scales()}, DType::kF32, compute,
                                   MemoryTag::kOptimizer)} {
  clear(compute);
}

void CodeErrors::clear(Stream& stream) {
  stream.fill_bytes(kept_.q.address(), 0, kept_.q.bytes());
  kernels::fill(stream, kept_.scale, 1.0F);
}

void CodeErrors::quantize(BucketSlots& slots, const StoreStreams& streams, CodeWork& work,
                          int64_t slice, const Tensor& x, const kernels::IntCodes& codes) {
  CodeWork keeping(slots, streams, format_, 1);
  const kernels::IntCodes kept = slices_of(kept_, format_, slice, 1);
  const auto take = [&] { return slots.take(format_.numel, DType::kF32, streams.peers); };
  Tensor error = take(), meant = take(), said = take();
  keeping.dequantize(kept, error);
  give(streams, kernels::cast, x, meant);
  give(streams, kernels::accumulate, error, meant);
  work.quantize(meant, codes);
  work.dequantize(codes, said);
  streams.give([meant = borrowed(meant), said = borrowed(said), beta = beta_,
                error = borrowed(error)](Stream& on) mutable {
    kernels::feed_back(on, meant, said, beta, error);
  });
  keeping.quantize(error, kept);
  slots.give_back(said, streams.peers);
  slots.give_back(meant, streams.peers);
  slots.give_back(error, streams.peers);
}

}  // namespace ds
