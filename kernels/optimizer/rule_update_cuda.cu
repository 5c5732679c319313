// The rules' updates on CUDA devices: one launch over packs of four weights, which reads on the
// device what step it is and whether it has to be made. What is done to one weight is
// update_rules.h's, and how its state is kept moments.h's. Which types there are is asked where
// they are read and written: every thread answers alike, and memory is what the kernel waits for.
// How many states there are is known to the compiler, so that all numbers lie in registers.
#include <type_traits>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/optimizer/rule_update_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

constexpr int kPack = cuda::kPackOf<float>;
constexpr int kLanesOfBlock = static_cast<int>(kMomentBlock) / kPack;  // of those with one scale

struct DeviceState {
  void* values;
  uint8_t* scales;  // or null
  MomentFormat format;
};

struct RulePointers {
  void* master;
  DType master_dtype;
  bool rounds_at_random;  // masters, which are bf16 then
  WeightNoise noise;
  const void* grad;
  DType grad_dtype;
  void* copy;  // or null
  DType copy_dtype;
  DeviceState states[kMostStates];
  bool aligned;
};

// Four neighbours, which lie in one pack of each array.
struct WholeSpan {
  static constexpr bool kIsWhole = true;
  int64_t at;
  __device__ constexpr bool has(int /*i*/) const { return true; }
};
// Up to four neighbours, anywhere.
struct PartSpan {
  static constexpr bool kIsWhole = false;
  int64_t at;
  int count;
  __device__ bool has(int i) const { return i < count; }
};

// use(i) for each of its numbers, where `i` is known to the compiler.
template <class Span, class Use>
__device__ void for_each_of(const Span& span, const Use& use) {
  DS_UNROLL
  for (int i = 0; i < kPack; ++i) {
    if (span.has(i)) use(i);
  }
}

// take(i, number) for each of the array's.
template <class T, class Span, class Take>
__device__ void load_each(const void* from, const Span& span, const Take& take) {
  const T* values = static_cast<const T*>(from) + span.at;
  if constexpr (Span::kIsWhole) {
    const Pack<T, kPack> pack = cuda::load<kPack>(values);
    for_each_of(span, [&](int i) { take(i, pack.values[i]); });
  } else {
    for_each_of(span, [&](int i) { take(i, values[i]); });
  }
}
template <class T, class Span>
__device__ void load_typed(const void* from, const Span& span, float* to) {
  load_each<T>(from, span, [&](int i, T value) { to[i] = static_cast<float>(value); });
}

// What each(i) says, which is of the array's type.
template <class T, class Span, class Each>
__device__ void store_each(void* to, const Span& span, const Each& each) {
  T* values = static_cast<T*>(to) + span.at;
  if constexpr (Span::kIsWhole) {
    Pack<T, kPack> pack;
    for_each_of(span, [&](int i) { pack.values[i] = each(i); });
    cuda::store(pack, values);
  } else {
    for_each_of(span, [&](int i) { values[i] = each(i); });
  }
}

template <class T, class Span>
__device__ void store_typed(const float* from, const Span& span, void* to) {
  store_each<T>(to, span, [&](int i) { return static_cast<T>(from[i]); });
}

template <class Span>
__device__ void load_floats(const void* from, DType dtype, const Span& span, float* to) {
  if (dtype == DType::kF32) return load_typed<float>(from, span, to);
  if (dtype == DType::kBF16) return load_typed<BF16>(from, span, to);
  load_typed<F16>(from, span, to);
}
template <class Span>
__device__ void store_floats(const float* from, DType dtype, const Span& span, void* to) {
  if (dtype == DType::kF32) return store_typed<float>(from, span, to);
  if (dtype == DType::kBF16) return store_typed<BF16>(from, span, to);
  store_typed<F16>(from, span, to);
}

template <class Span>
__device__ void load_state(const DeviceState& state, const Span& span, float* to) {
  if (state.format == MomentFormat::kFp32) return load_typed<float>(state.values, span, to);
  if (state.format == MomentFormat::kBf16) return load_typed<BF16>(state.values, span, to);
  if (!span.has(0)) return;
  const bool is_root = state.format == MomentFormat::kMxFp8Root;
  const float power = power_of(state.scales[span.at / kMomentBlock]);
  load_each<uint8_t>(state.values, span, [&](int i, uint8_t code) {
    const float value = from_mxfp8(code, power);
    to[i] = is_root ? value * value : value;
  });
}

// All lanes of a warp call it together: those of a block find its largest number.
template <class Span>
__device__ void store_mxfp8(const float* values, uint32_t salt, const Span& span,
                            const DeviceState& state) {
  const bool is_root = state.format == MomentFormat::kMxFp8Root;
  float numbers[kPack];
  uint32_t largest = 0;
  for_each_of(span, [&](int i) {
    numbers[i] = is_root ? std::sqrt(values[i]) : values[i];
    const uint32_t bits = std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffU;
    largest = bits > largest ? bits : largest;
  });
  for (int distance = 1; distance < kLanesOfBlock; distance *= 2) {
    const uint32_t other = __shfl_xor_sync(cuda::kAllLanes, largest, distance);
    largest = other > largest ? other : largest;
  }
  if (!span.has(0)) return;
  const uint8_t scale = scale_of(largest);
  const float inverse = inverse_power_of(scale);
  store_each<uint8_t>(state.values, span, [&](int i) {
    return to_mxfp8(numbers[i], inverse, rounding_noise(numbers[i], salt));
  });
  if (span.at % kMomentBlock == 0) state.scales[span.at / kMomentBlock] = scale;
}

template <class Span>
__device__ void store_state(const float* values, uint32_t salt, const Span& span,
                            const DeviceState& state) {
  if (state.format == MomentFormat::kFp32) {
    store_typed<float>(values, span, state.values);
  } else if (state.format == MomentFormat::kBf16) {
    store_each<uint16_t>(state.values, span, [&](int i) {
      return bf16_bits(values[i], rounding_noise(values[i], salt));
    });
  } else {
    store_mxfp8(values, salt, span, state);
  }
}

// `values` become what the master holds then.
template <class Span>
__device__ void store_master(float* values, int64_t step, const Span& span, const RulePointers& p) {
  if (p.rounds_at_random) {
    const uint32_t salt = weight_salt(p.noise.key, step);
    const auto first = static_cast<uint32_t>(p.noise.first + span.at);
    store_each<uint16_t>(p.master, span, [&](int i) {
      const uint16_t bits =
          bf16_bits(values[i], weight_noise(salt, first + static_cast<uint32_t>(i)));
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      return bits;
    });
    return;
  }
  store_floats(values, p.master_dtype, span, p.master);
  for_each_of(span, [&](int i) {
    if (p.master_dtype == DType::kBF16) values[i] = static_cast<float>(BF16(values[i]));
    if (p.master_dtype == DType::kF16) values[i] = static_cast<float>(F16(values[i]));
  });
}

template <int kStates, class Factors, class Span>
__device__ void update_span(const Factors& factors, float grad_scale, int64_t step,
                            const RulePointers& p, const Span& span) {
  // There is room for all states, because an array of none is no array.
  float weight[kPack] = {}, grad[kPack] = {}, numbers[kMostStates][kPack] = {};
  load_floats(p.master, p.master_dtype, span, weight);
  load_floats(p.grad, p.grad_dtype, span, grad);
  DS_UNROLL
  for (int j = 0; j < kStates; ++j) load_state(p.states[j], span, numbers[j]);
  for_each_of(span, [&](int i) {
    RuleState state{{numbers[0][i], numbers[1][i], numbers[2][i]}};
    update_element(factors, weight[i], grad[i] * grad_scale, state);
    DS_UNROLL
    for (int j = 0; j < kStates; ++j) numbers[j][i] = state.values[j];
  });
  store_master(weight, step, span, p);
  DS_UNROLL
  for (int j = 0; j < kStates; ++j) {
    store_state(numbers[j], noise_salt(step, j), span, p.states[j]);
  }
  if (p.copy != nullptr) store_floats(weight, p.copy_dtype, span, p.copy);
}

// Calls `use` for the packs of this thread; whole warps come together to the end, with spans of one
// kind.
template <class Use>
__device__ void for_each_span(int64_t numel, bool aligned, const Use& use) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = (numel + kPack - 1) / kPack;
  const int64_t end = (packs + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp;
  const int64_t whole = aligned ? numel / (kPack * cuda::kWarp) * cuda::kWarp : 0;
  int64_t pack = first;
  for (; pack < whole; pack += threads) use(WholeSpan{.at = pack * kPack});
  for (; pack < end; pack += threads) {
    const int64_t left = numel - pack * kPack;
    const int count = left <= 0 ? 0 : (left < kPack ? static_cast<int>(left) : kPack);
    use(PartSpan{.at = pack * kPack, .count = count});
  }
}

// Counts of states that a rule may have; most have one count.
template <class Rule>
constexpr bool may_have(int states) {
  if constexpr (std::is_same_v<Rule, AdamStateRule>) {
    return states == 2 || states == 3;
  } else if constexpr (std::is_same_v<Rule, SgdRule>) {
    return states == 0 || states == 1;
  } else if constexpr (std::is_same_v<Rule, RmspropRule>) {
    return states >= 1 && states <= 3;
  } else {
    return states == Rule::states();
  }
}

template <class Rule, class Factors, int kStates>
__global__ void rule_kernel(int64_t numel, Rule rule, const StepInputs* inputs,
                            const StepOutcome* outcome, RulePointers p) {
  if (outcome->skip != 0) return;
  // Their divisions in fp64 are dear: one thread makes them for its block.
  DS_SHARED(Factors, shared, 1);
  if (threadIdx.x == 0) shared[0] = factors_of(rule, *inputs);
  __syncthreads();
  Factors factors = shared[0];
  if constexpr (requires { factors.with_states(kStates); }) factors = factors.with_states(kStates);
  const float grad_scale = outcome->grad_scale;
  const int64_t step = inputs->step;
  for_each_span(numel, p.aligned, [&](const auto& span) {
    update_span<kStates>(factors, grad_scale, step, p, span);
  });
}

__global__ void unpack_kernel(int64_t numel, DeviceState state, float* numbers) {
  for_each_span(numel, false, [&](const auto& span) {
    float values[kPack] = {};
    load_state(state, span, values);
    store_typed<float>(values, span, numbers);
  });
}

__global__ void pack_kernel(int64_t numel, const float* numbers, DeviceState state) {
  for_each_span(numel, false, [&](const auto& span) {
    float values[kPack] = {};
    load_typed<float>(numbers, span, values);
    store_state(values, kPackingSalt, span, state);
  });
}

DeviceState device_state(const StateTensor& state) {
  return {.values = state.values.address(),
          .scales = static_cast<uint8_t*>(state.scales.address()),
          .format = state.format};
}

bool lies_in_packs(const Tensor& tensor) {
  return !tensor.defined() ||
         reinterpret_cast<uintptr_t>(tensor.address()) % (size_of(tensor.dtype()) * kPack) == 0;
}

// The kernel for so many states, which are kStates or more.
template <int kStates, class Rule>
void launch_for(int states, Stream& stream, int64_t numel, const Rule& rule,
                const StepScalars& scalars, const RulePointers& p) {
  if constexpr (kStates > kMostStates) {
    throw InternalError(fmt::format("rule_update: the rule has no kernel for {} states", states));
  } else {
    if constexpr (may_have<Rule>(kStates)) {
      if (states == kStates) {
        using Factors = decltype(factors_of(rule, scalars.inputs()));
        cuda::launch("rule_update", rule_kernel<Rule, Factors, kStates>,
                     cuda::shape_for((numel + kPack - 1) / kPack), stream, numel, rule,
                     &scalars.inputs(), &scalars.outcome(), p);
        return;
      }
    }
    launch_for<kStates + 1>(states, stream, numel, rule, scalars, p);
  }
}

}  // namespace

template <class Rule>
void rule_update_cuda(Stream& stream, const RuleArgs& args, const Rule& rule,
                      const StepScalars& scalars) {
  RulePointers p{.master = args.master.address(),
                 .master_dtype = args.master.dtype(),
                 .rounds_at_random = args.noise.has_value(),
                 .noise = args.noise.value_or(WeightNoise{}),
                 .grad = args.grad.address(),
                 .grad_dtype = args.grad.dtype(),
                 .copy = args.copy.address(),
                 .copy_dtype = args.copy.defined() ? args.copy.dtype() : DType::kF32,
                 .states = {},
                 .aligned = lies_in_packs(args.master) && lies_in_packs(args.grad) &&
                            lies_in_packs(args.copy)};
  const auto states = narrow<int>(args.states.size());
  for (int j = 0; j < states; ++j) {
    p.states[j] = device_state(nth(args.states, j));
    p.aligned = p.aligned && lies_in_packs(nth(args.states, j).values);
  }
  launch_for<0>(states, stream, args.master.numel(), rule, scalars, p);
}

template void rule_update_cuda(Stream&, const RuleArgs&, const AdamStateRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const RmspropRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const OneBitRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const ZeroOneRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const OneBitLambRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const AgreedRule&, const StepScalars&);

void unpack_state_cuda(Stream& stream, const StateTensor& state, const Tensor& numbers) {
  const int64_t n = numbers.numel();
  cuda::launch("unpack_state", unpack_kernel, cuda::shape_for((n + kPack - 1) / kPack), stream, n,
               device_state(state), static_cast<float*>(numbers.address()));
}

void pack_state_cuda(Stream& stream, const Tensor& numbers, const StateTensor& state) {
  const int64_t n = numbers.numel();
  cuda::launch("pack_state", pack_kernel, cuda::shape_for((n + kPack - 1) / kPack), stream, n,
               static_cast<const float*>(numbers.address()), device_state(state));
}

}  // namespace ds::kernels::detail
