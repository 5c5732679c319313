// The rules' updates on the CPU, by chunks that stay in the cache: masters and gradients of fewer
// bits become fp32 before, state in registers or a block at a time, each weight has its turn, and
// they go back. Loops are written so that the compiler makes vectors of them, once for each
// instruction set; nothing is contracted, so that all of them have the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/rule_update_cpu.cpp"
#include "kernels/optimizer/rule_update_cpu.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <type_traits>

#include "core/device/dispatch.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise/spans.h"
#include "kernels/optimizer/mxfp8.inl"

#ifndef DS_KERNELS_CPU_RULE_SPANS
#define DS_KERNELS_CPU_RULE_SPANS

namespace ds::kernels {

// Numbers at a time: weights and gradients, where they are not in fp32, take 8 KiB of the cache,
// state in 8 bits 4 KiB each.
constexpr int64_t kChunk = 1024;

// Part of a StateTensor.
struct StateSpan {
  void* values = nullptr;
  uint8_t* scales = nullptr;
  bool root = false;
  uint32_t salt = 0;
};

// A chunk: weights and gradients in fp32, state as it is kept.
struct RuleSpan {
  float* weight = nullptr;
  const float* grad = nullptr;
  float grad_scale = 1;
  StateSpan states[kMostStates] = {};
  DType state_dtype = DType::kF32;  // of all of them
  int64_t count = 0;
};

}  // namespace ds::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// How a number of state becomes fp32 and, after the step, what it is kept as.
struct Fp32State {
  using Kept = float;
  static float number(float kept) { return kept; }
  static float kept(float number, uint32_t /*salt*/) { return number; }
};
struct Bf16State {
  using Kept = uint16_t;
  static float number(uint16_t kept) {
    return std::bit_cast<float>(static_cast<uint32_t>(kept) << 16);
  }
  static uint16_t kept(float number, uint32_t salt) {
    return bf16_bits(number, rounding_noise(number, salt));
  }
};

template <class Format, int kStates, class Factors>
void update_span(const Factors& given, const RuleSpan& span) {
  using Kept = typename Format::Kept;
  Factors factors = given;
  if constexpr (requires { given.with_states(kStates); }) factors = given.with_states(kStates);
  const float grad_scale = span.grad_scale;
  float* __restrict weight = span.weight;
  const float* __restrict grad = span.grad;
  Kept* __restrict s0 = static_cast<Kept*>(span.states[0].values);
  Kept* __restrict s1 = static_cast<Kept*>(span.states[1].values);
  Kept* __restrict s2 = static_cast<Kept*>(span.states[2].values);
  const uint32_t salt0 = span.states[0].salt, salt1 = span.states[1].salt,
                 salt2 = span.states[2].salt;
  const int64_t count = span.count;
  for (int64_t i = 0; i < count; ++i) {
    RuleState state{};
    if constexpr (kStates > 0) state.values[0] = Format::number(s0[i]);
    if constexpr (kStates > 1) state.values[1] = Format::number(s1[i]);
    if constexpr (kStates > 2) state.values[2] = Format::number(s2[i]);
    float w = weight[i];
    update_element(factors, w, grad[i] * grad_scale, state);
    weight[i] = w;
    if constexpr (kStates > 0) s0[i] = Format::kept(state.values[0], salt0);
    if constexpr (kStates > 1) s1[i] = Format::kept(state.values[1], salt1);
    if constexpr (kStates > 2) s2[i] = Format::kept(state.values[2], salt2);
  }
}

// State in 8 bits as fp32, a chunk of it: scales are found for all of its blocks at once.
constexpr int64_t kChunkBlocks = kChunk / kMomentBlock;
static_assert(kChunk % kMomentBlock == 0 && kChunkBlocks % 16 == 0);
struct StateNumbers {
  HWY_ALIGN float values[kChunk];
  HWY_ALIGN uint32_t largest[4 * kChunkBlocks];
};

HWY_INLINE uint8_t* codes_of(const StateSpan& state, int64_t block) {
  return static_cast<uint8_t*>(state.values) + block * kMomentBlock;
}

// Reads a last block that has less than kMomentBlock numbers; what is missing is 0.
HWY_INLINE void read_last(const StateSpan& state, int64_t block, int64_t count, float* to) {
  uint8_t codes[kMomentBlock] = {};
  std::copy_n(codes_of(state, block), count, codes);
  read_block(codes, state.scales[block], to);
}

// `count` numbers, of whose whole blocks the largest are known.
template <bool kSigned>
HWY_INLINE void write_state(StateNumbers& numbers, int64_t count, const StateSpan& state) {
  const int64_t blocks = divide_up(count, kMomentBlock), whole = count / kMomentBlock;
  if (whole < blocks) {
    std::fill(numbers.values + count, numbers.values + blocks * kMomentBlock, 0.0F);
    find_largest<kSigned>(numbers.values + whole * kMomentBlock, numbers.largest + 4 * whole);
  }
  std::fill(numbers.largest + 4 * blocks, numbers.largest + 4 * kChunkBlocks, 0U);
  uint8_t scales[kChunkBlocks];
  HWY_ALIGN float inverses[kChunkBlocks];
  const bool beyond = find_scales(numbers.largest, kChunkBlocks, scales, inverses);
  std::copy_n(scales, blocks, state.scales);
  const int64_t fast = beyond ? 0 : whole;
  for (int64_t block = 0; block < fast; ++block) {
    write_block<kSigned>(numbers.values + block * kMomentBlock, inverses[block], state.salt,
                         codes_of(state, block));
  }
  auto* const codes = static_cast<uint8_t*>(state.values);
  for (int64_t i = fast * kMomentBlock; i < count; ++i) {
    const float number = numbers.values[i];
    codes[i] = to_mxfp8(number, inverses[i / kMomentBlock], rounding_noise(number, state.salt));
  }
}

// What is a root becomes a number for the step. Its root is taken in the same loop, where Adam has
// taken it already.
template <int kState, unsigned kRoots>
HWY_INLINE float number_of(float* const* numbers, int64_t i) {
  const float kept = numbers[kState][i];
  return (kRoots >> kState & 1U) != 0 ? kept * kept : kept;
}
template <int kState, unsigned kRoots>
HWY_INLINE void keep_number(float number, float* const* numbers, int64_t i) {
  numbers[kState][i] = (kRoots >> kState & 1U) != 0 ? std::sqrt(number) : number;
}

template <int kStates, class Factors>
HWY_INLINE void update_block(const Factors& factors, float grad_scale, float* __restrict weight,
                             const float* __restrict grad, float* const* numbers) {
  constexpr unsigned kRoots = kRootStates<Factors>;
  for (int64_t i = 0; i < kMomentBlock; ++i) {
    RuleState state{};
    if constexpr (kStates > 0) state.values[0] = number_of<0, kRoots>(numbers, i);
    if constexpr (kStates > 1) state.values[1] = number_of<1, kRoots>(numbers, i);
    if constexpr (kStates > 2) state.values[2] = number_of<2, kRoots>(numbers, i);
    float w = weight[i];
    update_element(factors, w, grad[i] * grad_scale, state);
    weight[i] = w;
    if constexpr (kStates > 0) keep_number<0, kRoots>(state.values[0], numbers, i);
    if constexpr (kStates > 1) keep_number<1, kRoots>(state.values[1], numbers, i);
    if constexpr (kStates > 2) keep_number<2, kRoots>(state.values[2], numbers, i);
  }
}

// use(number of a state, whether it may be negative)
template <int kStates, class Factors, class Use>
HWY_INLINE void for_states(const Use& use) {
  constexpr unsigned kRoots = kRootStates<Factors>;
  if constexpr (kStates > 0) use(0, std::bool_constant<(kRoots & 1U) == 0>());
  if constexpr (kStates > 1) use(1, std::bool_constant<(kRoots & 2U) == 0>());
  if constexpr (kStates > 2) use(2, std::bool_constant<(kRoots & 4U) == 0>());
}

template <int kStates, class Factors>
void update_blocks(const Factors& given, const RuleSpan& span) {
  Factors factors = given;
  if constexpr (requires { given.with_states(kStates); }) factors = given.with_states(kStates);
  const float grad_scale = span.grad_scale;
  StateNumbers states[kStates];
  StateSpan kept[kStates];
  std::copy_n(span.states, kStates, kept);
  float* numbers[kStates];
  const int64_t whole = span.count / kMomentBlock;
  for (int64_t block = 0; block < whole; ++block) {
    const int64_t at = block * kMomentBlock;
    for (int j = 0; j < kStates; ++j) {
      numbers[j] = states[j].values + at;
      read_block(codes_of(kept[j], block), kept[j].scales[block], numbers[j]);
    }
    update_block<kStates>(factors, grad_scale, span.weight + at, span.grad + at, numbers);
    for_states<kStates, Factors>([&](int j, auto is_signed) HWY_ATTR {
      find_largest<is_signed()>(numbers[j], states[j].largest + 4 * block);
    });
  }
  const int64_t at = whole * kMomentBlock, left = span.count - at;
  if (left > 0) {
    float weight[kMomentBlock] = {}, grad[kMomentBlock] = {};
    std::copy_n(span.weight + at, left, weight);
    std::copy_n(span.grad + at, left, grad);
    for (int j = 0; j < kStates; ++j) {
      numbers[j] = states[j].values + at;
      read_last(kept[j], whole, left, numbers[j]);
    }
    update_block<kStates>(factors, grad_scale, weight, grad, numbers);
    std::copy_n(weight, left, span.weight + at);
  }
  for_states<kStates, Factors>([&](int j, auto is_signed) HWY_ATTR {
    write_state<is_signed()>(states[j], span.count, kept[j]);
  });
}

template <int kStates, class Factors>
void update_states(const Factors& factors, const RuleSpan& span) {
  if constexpr (kStates > 0 && !kFp32Only<Factors>) {
    if (span.state_dtype == DType::kU8) return update_blocks<kStates>(factors, span);
    if (span.state_dtype == DType::kBF16) return update_span<Bf16State, kStates>(factors, span);
  }
  update_span<Fp32State, kStates>(factors, span);
}

template <class Factors>
void update_any(const Factors& factors, const RuleSpan& span, int states) {
  switch (states) {
    case 0:
      return update_states<0>(factors, span);
    case 1:
      return update_states<1>(factors, span);
    case 2:
      return update_states<2>(factors, span);
    default:
      return update_states<3>(factors, span);
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

void read_states_span(const StateSpan& state, float* to, int64_t count) {
  for (int64_t at = 0; at < count; at += kMomentBlock) {
    const int64_t here = std::min(kMomentBlock, count - at);
    HWY_ALIGN float numbers[kMomentBlock];
    read_last(state, at / kMomentBlock, here, numbers);
    for (int64_t i = 0; i < here; ++i) {
      to[at + i] = state.root ? numbers[i] * numbers[i] : numbers[i];
    }
  }
}

// Writes the state of a chunk.
void write_states_span(const float* from, const StateSpan& state, int64_t count) {
  StateNumbers numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.values[i] = state.root ? std::sqrt(from[i]) : from[i];
  }
  for (int64_t block = 0; block < count / kMomentBlock; ++block) {
    find_largest<true>(numbers.values + block * kMomentBlock, numbers.largest + 4 * block);
  }
  write_state<true>(numbers, count, state);
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
DS_SIMD_EXPORT(read_states_span);
DS_SIMD_EXPORT(write_states_span);

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

using Numbers = std::array<float, kChunk>;

StateSpan span_of(const StateTensor& state, int64_t begin, uint32_t salt) {
  auto* const values = static_cast<std::byte*>(state.values.address());
  const auto bytes_each = static_cast<int64_t>(size_of(state.values.dtype()));
  auto* const scales = static_cast<uint8_t*>(state.scales.address());
  return {.values = values + begin * bytes_each,
          .scales = scales == nullptr ? nullptr : scales + begin / kMomentBlock,
          .root = state.format == MomentFormat::kMxFp8Root,
          .salt = salt};
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
    span.states[j] = span_of(state, begin, noise_salt(step, j));
    span.state_dtype = state.values.dtype();
  }
  update_by(factors, span, states);
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
    const StateSpan span = span_of(state, begin, 0);
    if (state.values.dtype() == DType::kU8) return DS_SIMD(read_states_span)(span, to, count);
    cast_span(span.values, state.values.dtype(), to, DType::kF32, count);
  });
}

void pack_state_cpu(Stream& stream, const Tensor& numbers, const StateTensor& state) {
  over_chunks(stream, numbers.numel(), [&](int64_t begin, int64_t count) {
    const float* from = numbers.data<float>() + begin;
    const StateSpan span = span_of(state, begin, kPackingSalt);
    switch (state.values.dtype()) {
      case DType::kU8:
        return DS_SIMD(write_states_span)(from, span, count);
      case DType::kBF16:
        return DS_SIMD(bf16_span)(from, span.salt, static_cast<uint16_t*>(span.values), count);
      default:
        std::copy_n(from, count, static_cast<float*>(span.values));
    }
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
