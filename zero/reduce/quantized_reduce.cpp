#include "zero/reduce/quantized_reduce.h"

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/quantize/error_feedback.h"

namespace ds {
namespace {

constexpr int kGradientBits = 4;

SliceFormat format_of(int64_t slice_numel) { return {.bits = kGradientBits, .numel = slice_numel}; }

}  // namespace

// The far hop has codes of its own only where there are two.
void QuantizedReduce::add(const std::string& name, int64_t slice_numel) {
  if (!feedback_.on) return;
  const SliceFormat format = format_of(slice_numel);
  const int64_t far = far_.size();
  errors_.push_back(
      {.name = name,
       .near = CodeErrors(format, near_.size() * far, feedback_.beta, streams_.compute),
       .far = CodeErrors(format, has_two_hops() ? far : 0, feedback_.beta, streams_.compute)});
}

void QuantizedReduce::begin_step(int64_t step) {
  if (!feedback_.on || (step - 1) % feedback_.reset_steps != 0) return;
  for (Errors& errors : errors_) {
    errors.near.clear(streams_.peers);
    errors.far.clear(streams_.peers);
  }
}

void QuantizedReduce::end_step(const StepScalars& scalars) {
  for (Errors& errors : errors_) {
    for (CodeErrors* const at : {&errors.near, &errors.far}) {
      if (at->kept().scale.numel() == 0) continue;
      kernels::rescale_errors(streams_.compute, scalars, at->kept().scale);
    }
  }
}

std::vector<QuantizedReduce::Kept> QuantizedReduce::kept() {
  std::vector<Kept> all;
  for (Errors& errors : errors_) {
    const auto put = [&](const char* kind, const Tensor& values) {
      const bool is_scale = values.dtype() == DType::kF32;
      all.push_back({.spec = {.name = fmt::format("{}/{}", errors.name, kind),
                              .numel = values.numel(),
                              .initial = is_scale ? 1.0F : 0.0F,
                              .per_gradient = is_scale},
                     .values = values});
    };
    put(kNearErrors, errors.near.kept().q);
    put(kNearErrorScales, errors.near.kept().scale);
    if (!has_two_hops()) continue;
    put(kFarErrors, errors.far.kept().q);
    put(kFarErrorScales, errors.far.kept().scale);
  }
  return all;
}

void QuantizedReduce::reduce_scatter(int bucket, const Tensor& full, const Tensor& slice) {
  const SliceFormat format = format_of(slice.numel());
  const int64_t slices = int64_t{near_.size()} * far_.size();
  Errors* const errors = errors_of(bucket);
  CodeWork work(slots_, streams_, format, slices);
  kernels::IntCodes sent = work.take(slices), received = work.take(slices);
  quantize(work, format, errors, full, sent);
  const bool both = has_two_hops();
  Communicator& first = near_.size() > 1 ? near_ : far_;
  exchange(first, sent, received);
  if (both) {
    const kernels::IntCodes sums = slices_of(sent, format, 0, far_.size());
    const kernels::IntCodes of_others = slices_of(received, format, 0, far_.size());
    requantize(work, format, errors, received, sums);
    exchange(far_, sums, of_others);
  }
  work.give_back(sent);
  add_up(work, format, received, both ? far_.size() : first.size(), slice);
  work.give_back(received);
}

// All slices of one neighbour after those of another: theirs are `near_.size()` apart.
void QuantizedReduce::quantize(CodeWork& work, const SliceFormat& format, Errors* errors,
                               const Tensor& full, const kernels::IntCodes& codes) {
  const int near = near_.size(), far = far_.size();
  if (errors == nullptr && !has_two_hops()) return work.quantize(full, codes);
  for (int to = 0; to < near; ++to) {
    for (int place = 0; place < far; ++place) {
      const int64_t slice = int64_t{place} * near + to;
      const Tensor from = full.narrow(slice * format.numel, format.numel);
      const kernels::IntCodes into = slices_of(codes, format, int64_t{to} * far + place, 1);
      if (errors == nullptr) {
        work.quantize(from, into);
      } else {
        errors->near.quantize(slots_, streams_, work, slice, from, into);
      }
    }
  }
}

void QuantizedReduce::exchange(Communicator& with, const kernels::IntCodes& sent,
                               const kernels::IntCodes& received) {
  const auto all_to_all = [&with](Stream& on, const Tensor& from, Tensor& to) {
    with.all_to_all(from, to, on);
  };
  give(streams_, all_to_all, sent.q, received.q);
  give(streams_, all_to_all, sent.scale, received.scale);
}

void QuantizedReduce::requantize(CodeWork& work, const SliceFormat& format, Errors* errors,
                                 const kernels::IntCodes& received, const kernels::IntCodes& sums) {
  const int far = far_.size();
  if (errors == nullptr) return work.sum(received, near_.size(), sums);
  Tensor sum = slots_.take(format.numel, DType::kF32, streams_.peers);
  for (int place = 0; place < far; ++place) {
    sum_slices(work, format, received, place, far, near_.size(), sum);
    errors->far.quantize(slots_, streams_, work, place, sum, slices_of(sums, format, place, 1));
  }
  slots_.give_back(sum, streams_.peers);
}

void QuantizedReduce::add_up(CodeWork& work, const SliceFormat& format,
                             const kernels::IntCodes& codes, int ranks, const Tensor& slice) {
  const bool in_place = slice.dtype() == DType::kF32;
  Tensor sum = in_place ? slice : slots_.take(format.numel, DType::kF32, streams_.peers);
  sum_slices(work, format, codes, 0, 1, ranks, sum);
  if (in_place) return;
  give(streams_, kernels::cast, sum, slice);
  slots_.give_back(sum, streams_.peers);
}

void QuantizedReduce::sum_slices(CodeWork& work, const SliceFormat& format,
                                 const kernels::IntCodes& codes, int64_t first, int64_t apart,
                                 int ranks, const Tensor& sum) {
  Tensor one = slots_.take(format.numel, DType::kF32, streams_.peers);
  work.dequantize(slices_of(codes, format, first, 1), sum);
  for (int rank = 1; rank < ranks; ++rank) {
    work.dequantize(slices_of(codes, format, first + rank * apart, 1), one);
    give(streams_, kernels::accumulate, one, sum);
  }
  slots_.give_back(one, streams_.peers);
}

}  // namespace ds
