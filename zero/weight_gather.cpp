#include "zero/weight_gather.h"

#include "core/index.h"

namespace ds {
namespace {

constexpr int kWeightBits = 8;

void copy(Stream& stream, const Tensor& from, const Tensor& to) {
  stream.copy(from.address(), to.address(), to.bytes());
}

}  // namespace

void WeightGather::add(int bucket, int64_t slice_numel, DType dtype) {
  if (!options_.secondary) return;
  if (bucket >= narrow<int>(secondaries_.size())) secondaries_.resize(to_size(bucket) + 1);
  Secondary& made = nth(secondaries_, bucket).emplace();
  const MemoryScope scope(streams_.compute, slots_.memory());
  const auto zeros = [&](int64_t numel, DType of) {
    return Tensor::zeros({numel}, of, streams_.compute, MemoryTag::kParameters);
  };
  if (!options_.quantized) {
    made.weights = zeros(slices_near() * slice_numel, dtype);
    return;
  }
  const SliceFormat format{.bits = kWeightBits, .numel = slice_numel};
  made.codes.q = zeros(slices_near() * format.code_bytes(), DType::kI8);
  made.codes.scale = zeros(slices_near() * format.scales(), DType::kF32);
}

void WeightGather::begin_micro_step() {
  in_micro_step_ = true;
  for (auto& secondary : secondaries_) {
    if (secondary) secondary->fresh = false;
  }
}

WeightGather::Secondary* WeightGather::secondary(int bucket) {
  if (!in_micro_step_ || bucket >= narrow<int>(secondaries_.size())) return nullptr;
  std::optional<Secondary>& of = nth(secondaries_, bucket);
  return of ? &*of : nullptr;
}

void WeightGather::gather(int bucket, const Tensor& slice, Tensor& whole) {
  Secondary* const copied = secondary(bucket);
  if (copied != nullptr && copied->fresh) return gather_near(*copied, slice.numel(), whole);
  if (options_.quantized) {
    gather_codes(slice, whole, copied);
  } else {
    all_.all_gather(slice, whole, streams_.peers);
    if (copied != nullptr) {
      const int64_t numel = copied->weights.numel();
      copy(streams_.peers, whole.narrow(near_.rank() * numel, numel), copied->weights);
    }
  }
  if (copied != nullptr) copied->fresh = true;
}

void WeightGather::gather_codes(const Tensor& slice, Tensor& whole, Secondary* keep) {
  const SliceFormat format{.bits = kWeightBits, .numel = slice.numel()};
  CodeWork work(slots_, streams_.peers, format, 1);
  kernels::IntCodes codes = work.take(all_.size());
  const kernels::IntCodes own = slices_of(codes, format, all_.rank(), 1);
  work.quantize(slice, own);
  all_.all_gather(own.q, codes.q, streams_.peers);
  all_.all_gather(own.scale, codes.scale, streams_.peers);
  if (keep != nullptr) {
    const kernels::IntCodes part =
        slices_of(codes, format, near_.rank() * slices_near(), slices_near());
    copy(streams_.peers, part.q, keep->codes.q);
    copy(streams_.peers, part.scale, keep->codes.scale);
  }
  work.dequantize(codes, whole);
  work.give_back(codes);
}

void WeightGather::gather_near(const Secondary& from, int64_t slice_numel, Tensor& whole) {
  if (!options_.quantized) return near_.all_gather(from.weights, whole, streams_.peers);
  const SliceFormat format{.bits = kWeightBits, .numel = slice_numel};
  CodeWork work(slots_, streams_.peers, format, 1);
  kernels::IntCodes codes = work.take(all_.size());
  near_.all_gather(from.codes.q, codes.q, streams_.peers);
  near_.all_gather(from.codes.scale, codes.scale, streams_.peers);
  work.dequantize(codes, whole);
  work.give_back(codes);
}

}  // namespace ds
