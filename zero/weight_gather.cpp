#include "zero/weight_gather.h"

#include "core/values/index.h"

namespace ds {
namespace {

constexpr int kWeightBits = 8;

void copy(Stream& stream, const Tensor& from, const Tensor& to) {
  stream.copy(from.address(), to.address(), to.bytes());
}

void give_gather(const StoreStreams& streams, Communicator& group, const Tensor& slice,
                 const Tensor& whole) {
  const auto all_gather = [&group](Stream& on, const Tensor& from, Tensor& to) {
    group.all_gather(from, to, on);
  };
  give(streams, all_gather, slice, whole);
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
  if (copied != nullptr && copied->fresh) return gather_near(bucket, *copied, slice.numel(), whole);
  if (options_.quantized) {
    gather_codes(bucket, slice, whole, copied);
  } else {
    give_gather(streams_, all_, slice, whole);
    if (copied != nullptr) {
      const int64_t numel = copied->weights.numel();
      give(streams_, copy, whole.narrow(near_.rank() * numel, numel), copied->weights);
    }
  }
  if (copied != nullptr) copied->fresh = true;
}

std::optional<WeightGather::Packed>& WeightGather::packed(int bucket) {
  if (bucket >= narrow<int>(packed_.size())) packed_.resize(to_size(bucket) + 1);
  return nth(packed_, bucket);
}

void WeightGather::make_weights(int bucket, CodeWork& work, const SliceFormat& format,
                                kernels::IntCodes& codes, const Tensor& whole) {
  if (unpacks_on_use_) {
    packed(bucket) = {.codes = std::move(codes), .how = format.quant()};
    return;
  }
  work.dequantize(codes, whole);
  work.give_back(codes);
}

void WeightGather::unpack(int bucket, const Tensor& whole) {
  std::optional<Packed>& arrived = packed(bucket);
  if (!arrived) return;
  Tensor weights = whole;
  kernels::dequantize_int(streams_.compute, arrived->codes, arrived->how, weights);
  slots_.give_back(arrived->codes.q, streams_.compute);
  slots_.give_back(arrived->codes.scale, streams_.compute);
  arrived.reset();
}

void WeightGather::release(int bucket) {
  std::optional<Packed>& unused = packed(bucket);
  if (!unused) return;
  slots_.give_back(unused->codes.q, streams_.peers);
  slots_.give_back(unused->codes.scale, streams_.peers);
  unused.reset();
}

void WeightGather::gather_codes(int bucket, const Tensor& slice, Tensor& whole, Secondary* keep) {
  const SliceFormat format{.bits = kWeightBits, .numel = slice.numel()};
  CodeWork work(slots_, streams_, format, 1);
  kernels::IntCodes codes = work.take(all_.size());
  const kernels::IntCodes own = slices_of(codes, format, all_.rank(), 1);
  work.quantize(slice, own);
  give_gather(streams_, all_, own.q, codes.q);
  give_gather(streams_, all_, own.scale, codes.scale);
  if (keep != nullptr) {
    const kernels::IntCodes part =
        slices_of(codes, format, near_.rank() * slices_near(), slices_near());
    give(streams_, copy, part.q, keep->codes.q);
    give(streams_, copy, part.scale, keep->codes.scale);
  }
  make_weights(bucket, work, format, codes, whole);
}

void WeightGather::gather_near(int bucket, const Secondary& from, int64_t slice_numel,
                               Tensor& whole) {
  if (!options_.quantized) return give_gather(streams_, near_, from.weights, whole);
  const SliceFormat format{.bits = kWeightBits, .numel = slice_numel};
  CodeWork work(slots_, streams_, format, 1);
  kernels::IntCodes codes = work.take(all_.size());
  give_gather(streams_, near_, from.codes.q, codes.q);
  give_gather(streams_, near_, from.codes.scale, codes.scale);
  make_weights(bucket, work, format, codes, whole);
}

}  // namespace ds
