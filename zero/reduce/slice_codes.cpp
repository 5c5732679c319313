#include "zero/reduce/slice_codes.h"

#include "core/status/error.h"
#include "core/values/index.h"

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
CodeWork::CodeWork(BucketSlots& slots, const StoreStreams& streams, const SliceFormat& format,
                   int64_t slices)
    : slots_(slots), streams_(streams), format_(format) {
  DS_CHECK(format.numel > 0 && format.numel % format.scales() == 0,
           "codes of slices: {} elements are not {} equal runs", format.numel, format.scales());
  const auto bytes = slices * format.scales() * static_cast<int64_t>(sizeof(kernels::Range));
  scratch_ = slots_.take(bytes, DType::kU8, streams_.peers);
}

CodeWork::~CodeWork() { slots_.give_back(scratch_, streams_.peers); }

kernels::IntCodes CodeWork::take(int64_t slices) {
  return {.q = slots_.take(slices * format_.code_bytes(), DType::kI8, streams_.peers),
          .scale = slots_.take(slices * format_.scales(), DType::kF32, streams_.peers)};
}

void CodeWork::give_back(kernels::IntCodes& codes) {
  slots_.give_back(codes.q, streams_.peers);
  slots_.give_back(codes.scale, streams_.peers);
}

void CodeWork::quantize(const Tensor& x, const kernels::IntCodes& codes) {
  streams_.give([scratch = borrowed(scratch_), x = borrowed(x), how = format_.quant(),
                 codes = borrowed(codes)](Stream& on) {
    LentMemory memory(scratch);
    const MemoryScope scope(on, memory);
    kernels::quantize_int(on, x, how, codes);
  });
}

void CodeWork::dequantize(const kernels::IntCodes& codes, const Tensor& y) {
  streams_.give([codes = borrowed(codes), how = format_.quant(), y = borrowed(y)](
                    Stream& on) mutable { kernels::dequantize_int(on, codes, how, y); });
}

void CodeWork::sum(const kernels::IntCodes& from, int64_t ranks, const kernels::IntCodes& to) {
  const int64_t slices = to.scale.numel() / format_.scales();
  streams_.give([scratch = borrowed(scratch_),
                 args = kernels::SumCodesArgs{.from = borrowed(from),
                                              .from_how = format_.quant(),
                                              .ranks = ranks,
                                              .numel = slices * format_.numel,
                                              .to = borrowed(to),
                                              .to_how = format_.quant()}](Stream& on) {
    LentMemory memory(scratch);
    const MemoryScope scope(on, memory);
    kernels::sum_codes(on, args);
  });
}

}  // namespace ds
