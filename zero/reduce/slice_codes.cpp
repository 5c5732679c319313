#include "zero/reduce/slice_codes.h"

#include "core/error.h"
#include "core/index.h"

namespace ds {
namespace {

// What a kernel needs on its way, one tensor at a time, in memory that was taken for it: what the
// stream allocates otherwise is planned by who computes, and not by who talks to peers.
class LentMemory final : public MemoryResource {
 public:
  explicit LentMemory(const Tensor& block) : block_(block) {}

  void* allocate(size_t bytes, MemoryTag /*tag*/) override {
    DS_CHECK(!lent_ && bytes <= block_.bytes(), "codes of slices: {} bytes of scratch, {} are lent",
             bytes, lent_ ? 0 : block_.bytes());
    lent_ = true;
    return block_.address();
  }
  void deallocate(void* /*pointer*/, size_t /*bytes*/, MemoryTag /*tag*/) noexcept override {
    lent_ = false;
  }

 private:
  const Tensor& block_;
  bool lent_ = false;
};

}  // namespace

kernels::IntCodes slices_of(const kernels::IntCodes& codes, const SliceFormat& format,
                            int64_t first, int64_t count) {
  return {.q = codes.q.narrow(first * format.code_bytes(), count * format.code_bytes()),
          .scale = codes.scale.narrow(first * format.scales(), count * format.scales())};
}

// Quantizers keep the range of each run until they know its scale.
CodeWork::CodeWork(BucketSlots& slots, Stream& stream, const SliceFormat& format, int64_t slices)
    : slots_(slots), stream_(stream), format_(format) {
  DS_CHECK(format.numel > 0 && format.numel % format.scales() == 0,
           "codes of slices: {} elements are not {} equal runs", format.numel, format.scales());
  const auto bytes = slices * format.scales() * static_cast<int64_t>(sizeof(kernels::Range));
  scratch_ = slots_.take(bytes, DType::kU8, stream_);
}

CodeWork::~CodeWork() { slots_.give_back(scratch_, stream_); }

kernels::IntCodes CodeWork::take(int64_t slices) {
  return {.q = slots_.take(slices * format_.code_bytes(), DType::kI8, stream_),
          .scale = slots_.take(slices * format_.scales(), DType::kF32, stream_)};
}

void CodeWork::give_back(kernels::IntCodes& codes) {
  slots_.give_back(codes.q, stream_);
  slots_.give_back(codes.scale, stream_);
}

void CodeWork::quantize(const Tensor& x, const kernels::IntCodes& codes) {
  LentMemory lent(scratch_);
  const MemoryScope scope(stream_, lent);
  kernels::quantize_int(stream_, x, format_.quant(), codes);
}

void CodeWork::dequantize(const kernels::IntCodes& codes, Tensor& y) {
  kernels::dequantize_int(stream_, codes, format_.quant(), y);
}

void CodeWork::sum(const kernels::IntCodes& from, int64_t ranks, const kernels::IntCodes& to) {
  LentMemory lent(scratch_);
  const MemoryScope scope(stream_, lent);
  const int64_t slices = to.scale.numel() / format_.scales();
  kernels::sum_codes(stream_, {.from = from,
                               .from_how = format_.quant(),
                               .ranks = ranks,
                               .numel = slices * format_.numel,
                               .to = to,
                               .to_how = format_.quant()});
}

}  // namespace ds
