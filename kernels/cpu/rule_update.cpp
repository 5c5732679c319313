// The rules' updates on the CPU, by chunks that stay in the cache: masters, gradients and state of
// fewer bits become fp32, each weight has its turn, and they go back. Loops are written so that the
// compiler makes vectors of them, once for each instruction set; nothing is contracted, so that all
// of them have the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rule_update.cpp"
#include "kernels/cpu/rule_update.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <type_traits>

#include "core/dispatch.h"
#include "core/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/spans.h"

#ifndef DS_KERNELS_CPU_RULE_SPANS
#define DS_KERNELS_CPU_RULE_SPANS

namespace ds::kernels {

// A chunk in fp32. State of fewer bits is converted on the way.
struct RuleSpan {
  float* weight = nullptr;
  const float* grad = nullptr;
  float grad_scale = 1;
  float* states[kMostStates] = {};
  int64_t count = 0;
};

using WholeBlock = std::integral_constant<int64_t, kMomentBlock>;

}  // namespace ds::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <int kStates, class Factors>
void update_span(const Factors& given, const RuleSpan& span) {
  Factors factors = given;
  if constexpr (requires { given.with_states(kStates); }) factors = given.with_states(kStates);
  const float grad_scale = span.grad_scale;
  float* __restrict weight = span.weight;
  const float* __restrict grad = span.grad;
  float* __restrict s0 = span.states[0];
  float* __restrict s1 = span.states[1];
  float* __restrict s2 = span.states[2];
  const int64_t count = span.count;
  for (int64_t i = 0; i < count; ++i) {
    RuleState state{};
    if constexpr (kStates > 0) state.values[0] = s0[i];
    if constexpr (kStates > 1) state.values[1] = s1[i];
    if constexpr (kStates > 2) state.values[2] = s2[i];
    float w = weight[i];
    update_element(factors, w, grad[i] * grad_scale, state);
    weight[i] = w;
    if constexpr (kStates > 0) s0[i] = state.values[0];
    if constexpr (kStates > 1) s1[i] = state.values[1];
    if constexpr (kStates > 2) s2[i] = state.values[2];
  }
}

template <class Factors>
void update_any(const Factors& factors, const RuleSpan& span, int states) {
  switch (states) {
    case 0:
      return update_span<0>(factors, span);
    case 1:
      return update_span<1>(factors, span);
    case 2:
      return update_span<2>(factors, span);
    default:
      return update_span<3>(factors, span);
  }
}

}  // namespace

void adam_span(const AdamStateFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void lion_span(const LionFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void adagrad_span(const AdagradFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void sgd_span(const SgdFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void rmsprop_span(const RmspropFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void onebit_span(const OneBitFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void zero_one_span(const ZeroOneFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void onebit_lamb_span(const OneBitLambFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}
void agreed_span(const AgreedFactors& factors, const RuleSpan& span, int states) {
  update_any(factors, span, states);
}

void bf16_span(const float* values, uint32_t salt, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = bf16_bits(values[i], rounding_noise(values[i], salt));
  }
}

// `values` become the numbers that were rounded to.
void round_weights_span(float* values, uint32_t salt, uint32_t first, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t noise = weight_noise(salt, first + static_cast<uint32_t>(i));
    to[i] = bf16_bits(values[i], noise);
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(to[i]) << 16);
  }
}

// Whole blocks have loops of a length that the compiler knows; the last one may be shorter.
void from_mxfp8_span(const uint8_t* codes, const uint8_t* scales, bool root, float* to,
                     int64_t count) {
  const auto block = [&](int64_t at, auto length) HWY_ATTR {
    const float power = power_of(scales[at / kMomentBlock]);
    const uint8_t* __restrict from = codes + at;
    float* __restrict out = to + at;
    for (int64_t i = 0; i < length; ++i) {
      const float number = from_mxfp8(from[i], power);
      out[i] = root ? number * number : number;
    }
  };
  int64_t at = 0;
  for (; at + kMomentBlock <= count; at += kMomentBlock) block(at, WholeBlock());
  if (at < count) block(at, count - at);
}

// `values` become their roots, where roots are kept.
void to_mxfp8_span(float* values, uint32_t salt, bool root, uint8_t* codes, uint8_t* scales,
                   int64_t count) {
  const auto block = [&](int64_t at, auto length) HWY_ATTR {
    float* __restrict from = values + at;
    uint8_t* __restrict out = codes + at;
    if (root) {
      for (int64_t i = 0; i < length; ++i) from[i] = std::sqrt(from[i]);
    }
    uint32_t largest = 0;
    for (int64_t i = 0; i < length; ++i) {
      largest = std::max(largest, std::bit_cast<uint32_t>(from[i]) & 0x7fffffffU);
    }
    const uint8_t scale = scale_of(largest);
    scales[at / kMomentBlock] = scale;
    const float inverse = inverse_power_of(scale);
    for (int64_t i = 0; i < length; ++i) {
      out[i] = to_mxfp8(from[i], inverse, rounding_noise(from[i], salt));
    }
  };
  int64_t at = 0;
  for (; at + kMomentBlock <= count; at += kMomentBlock) block(at, WholeBlock());
  if (at < count) block(at, count - at);
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(adam_span);
DS_SIMD_EXPORT(lion_span);
DS_SIMD_EXPORT(adagrad_span);
DS_SIMD_EXPORT(sgd_span);
DS_SIMD_EXPORT(rmsprop_span);
DS_SIMD_EXPORT(onebit_span);
DS_SIMD_EXPORT(zero_one_span);
DS_SIMD_EXPORT(onebit_lamb_span);
DS_SIMD_EXPORT(agreed_span);
DS_SIMD_EXPORT(bf16_span);
DS_SIMD_EXPORT(round_weights_span);
DS_SIMD_EXPORT(from_mxfp8_span);
DS_SIMD_EXPORT(to_mxfp8_span);

void update_by(const AdamStateFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(adam_span)(factors, span, states);
}
void update_by(const LionFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(lion_span)(factors, span, states);
}
void update_by(const AdagradFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(adagrad_span)(factors, span, states);
}
void update_by(const SgdFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(sgd_span)(factors, span, states);
}
void update_by(const RmspropFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(rmsprop_span)(factors, span, states);
}
void update_by(const OneBitFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(onebit_span)(factors, span, states);
}
void update_by(const ZeroOneFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(zero_one_span)(factors, span, states);
}
void update_by(const OneBitLambFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(onebit_lamb_span)(factors, span, states);
}
void update_by(const AgreedFactors& factors, const RuleSpan& span, int states) {
  DS_SIMD(agreed_span)(factors, span, states);
}

// Numbers converted at a time, a multiple of the block: weight, gradient and three states in 10 KiB
// of the cache, beside what is converted.
constexpr int64_t kChunk = 512;
static_assert(kChunk % kMomentBlock == 0);
using Numbers = std::array<float, kChunk>;

void load_state(const StateTensor& state, int64_t begin, float* to, int64_t count) {
  if (state.format == MomentFormat::kBf16) {
    detail::cast_span(state.values.data<BF16>() + begin, DType::kBF16, to, DType::kF32, count);
    return;
  }
  const bool root = state.format == MomentFormat::kMxFp8Root;
  DS_SIMD(from_mxfp8_span)
  (state.values.data<uint8_t>() + begin, state.scales.data<uint8_t>() + begin / kMomentBlock, root,
   to, count);
}

// `values` may change.
void store_state(float* values, uint32_t salt, const StateTensor& state, int64_t begin,
                 int64_t count) {
  if (state.format == MomentFormat::kBf16) {
    DS_SIMD(bf16_span)
    (values, salt, &state.values.data<BF16>()[begin].bits, count);
    return;
  }
  const bool root = state.format == MomentFormat::kMxFp8Root;
  DS_SIMD(to_mxfp8_span)
  (values, salt, root, state.values.data<uint8_t>() + begin,
   state.scales.data<uint8_t>() + begin / kMomentBlock, count);
}

// From fp32 to the master of fewer bits; `values` become what it holds then.
void store_master(float* values, const RuleArgs& args, int64_t step, int64_t begin, int64_t count) {
  if (args.noise) {
    DS_SIMD(round_weights_span)
    (values, weight_salt(args.noise->key, step), static_cast<uint32_t>(args.noise->first + begin),
     &args.master.data<BF16>()[begin].bits, count);
    return;
  }
  on_float(args.master.dtype(), [&]<class M>() {
    M* const to = args.master.data<M>() + begin;
    detail::cast_span(values, DType::kF32, to, args.master.dtype(), count);
    if (args.copy.defined()) detail::cast_span(to, args.master.dtype(), values, DType::kF32, count);
  });
}

template <class Factors>
void update_chunk(const RuleArgs& args, const Factors& factors, float grad_scale, int64_t step,
                  int64_t begin, int64_t count) {
  Numbers weight, grad;
  std::array<Numbers, kMostStates> numbers;
  RuleSpan span{
      .weight = weight.data(), .grad = grad.data(), .grad_scale = grad_scale, .count = count};
  const bool is_plain = args.master.dtype() == DType::kF32;
  if (is_plain) {
    span.weight = args.master.data<float>() + begin;
  } else {
    on_float(args.master.dtype(), [&]<class M>() {
      detail::cast_span(args.master.data<M>() + begin, args.master.dtype(), weight.data(),
                        DType::kF32, count);
    });
  }
  if (args.grad.dtype() == DType::kF32) {
    span.grad = args.grad.data<float>() + begin;
  } else {
    on_float(args.grad.dtype(), [&]<class G>() {
      detail::cast_span(args.grad.data<G>() + begin, args.grad.dtype(), grad.data(), DType::kF32,
                        count);
    });
  }
  const int states = narrow<int>(args.states.size());
  for (int j = 0; j < states; ++j) {
    const StateTensor& state = nth(args.states, j);
    const bool plain = state.format == MomentFormat::kFp32;
    span.states[j] = plain ? state.values.data<float>() + begin : nth(numbers, j).data();
    if (!plain) load_state(state, begin, span.states[j], count);
  }
  update_by(factors, span, states);
  for (int j = 0; j < states; ++j) {
    const StateTensor& state = nth(args.states, j);
    if (state.format == MomentFormat::kFp32) continue;
    store_state(span.states[j], noise_salt(step, j), state, begin, count);
  }
  if (!is_plain) store_master(span.weight, args, step, begin, count);
  if (!args.copy.defined()) return;
  on_float(args.copy.dtype(), [&]<class C>() {
    detail::cast_span(span.weight, DType::kF32, args.copy.data<C>() + begin, args.copy.dtype(),
                      count);
  });
}

void over_chunks(Stream& stream, int64_t numel,
                 const std::function<void(int64_t begin, int64_t count)>& chunk) {
  const int64_t chunks = (numel + kChunk - 1) / kChunk;
  stream.pool().parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      chunk(i * kChunk, std::min(kChunk, numel - i * kChunk));
    }
  });
}

}  // namespace

namespace detail {

template <class Rule>
void rule_update_cpu(Stream& stream, const RuleArgs& args, const Rule& rule,
                     const StepScalars& scalars) {
  const StepOutcome& outcome = scalars.outcome();
  if (outcome.skip != 0) return;
  const auto factors = factors_of(rule, scalars.inputs());
  over_chunks(stream, args.master.numel(), [&](int64_t begin, int64_t count) {
    update_chunk(args, factors, outcome.grad_scale, scalars.inputs().step, begin, count);
  });
}

template void rule_update_cpu(Stream&, const RuleArgs&, const AdamStateRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const RmspropRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const OneBitRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const ZeroOneRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const OneBitLambRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const AgreedRule&, const StepScalars&);

void unpack_state_cpu(Stream& stream, const StateTensor& state, const Tensor& numbers) {
  over_chunks(stream, numbers.numel(), [&](int64_t begin, int64_t count) {
    float* to = numbers.data<float>() + begin;
    if (state.format == MomentFormat::kFp32) {
      std::copy_n(state.values.data<float>() + begin, count, to);
    } else {
      load_state(state, begin, to, count);
    }
  });
}

void pack_state_cpu(Stream& stream, const Tensor& numbers, const StateTensor& state) {
  over_chunks(stream, numbers.numel(), [&](int64_t begin, int64_t count) {
    const float* from = numbers.data<float>() + begin;
    if (state.format == MomentFormat::kFp32) {
      std::copy_n(from, count, state.values.data<float>() + begin);
    } else {
      Numbers values;
      std::copy_n(from, count, values.data());
      store_state(values.data(), 0, state, begin, count);
    }
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
