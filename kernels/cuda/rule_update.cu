// The rules' updates on CUDA devices: one launch over packs of four weights, which reads on the
// device what step it is and whether it has to be made. What is done to one weight is
// update_rules.h's, and how its state is kept moments.h's. Which types there are is asked where
// they are read and written: every thread answers alike, and memory is what the kernel waits for.
#include "core/dispatch.h"
#include "core/index.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/rule_update.h"

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
  int state_count;
  bool aligned;
};

// Up to four neighbours; a whole pack at once where the arrays lie so.
struct Span {
  int64_t at;
  int count;
  bool whole;
};

template <class T>
__device__ void load_typed(const void* from, const Span& span, float* to) {
  const T* values = static_cast<const T*>(from) + span.at;
  if (span.whole) {
    const Pack<T, kPack> pack = cuda::load<kPack>(values);
    for (int i = 0; i < kPack; ++i) to[i] = static_cast<float>(pack.values[i]);
  } else {
    for (int i = 0; i < span.count; ++i) to[i] = static_cast<float>(values[i]);
  }
}

template <class T>
__device__ void store_typed(const float* from, const Span& span, void* to) {
  T* values = static_cast<T*>(to) + span.at;
  if (span.whole) {
    Pack<T, kPack> pack;
    for (int i = 0; i < kPack; ++i) pack.values[i] = static_cast<T>(from[i]);
    cuda::store(pack, values);
  } else {
    for (int i = 0; i < span.count; ++i) values[i] = static_cast<T>(from[i]);
  }
}

__device__ inline void load_floats(const void* from, DType dtype, const Span& span, float* to) {
  if (dtype == DType::kF32) return load_typed<float>(from, span, to);
  if (dtype == DType::kBF16) return load_typed<BF16>(from, span, to);
  load_typed<F16>(from, span, to);
}
__device__ inline void store_floats(const float* from, DType dtype, const Span& span, void* to) {
  if (dtype == DType::kF32) return store_typed<float>(from, span, to);
  if (dtype == DType::kBF16) return store_typed<BF16>(from, span, to);
  store_typed<F16>(from, span, to);
}

__device__ inline void load_state(const DeviceState& state, const Span& span, float* to) {
  if (state.format == MomentFormat::kFp32) return load_typed<float>(state.values, span, to);
  if (state.format == MomentFormat::kBf16) return load_typed<BF16>(state.values, span, to);
  if (span.count == 0) return;
  const float power = power_of(state.scales[span.at / kMomentBlock]);
  const uint8_t* codes = static_cast<const uint8_t*>(state.values) + span.at;
  for (int i = 0; i < span.count; ++i) {
    const float value = from_mxfp8(codes[i], power);
    to[i] = state.format == MomentFormat::kMxFp8Root ? value * value : value;
  }
}

// All lanes of a warp call it together: those of a block find its largest number.
__device__ inline void store_mxfp8(const float* values, uint32_t salt, const Span& span,
                                   const DeviceState& state) {
  float numbers[kPack];
  uint32_t largest = 0;
  for (int i = 0; i < span.count; ++i) {
    numbers[i] = state.format == MomentFormat::kMxFp8Root ? std::sqrt(values[i]) : values[i];
    const uint32_t bits = std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffU;
    largest = bits > largest ? bits : largest;
  }
  for (int distance = 1; distance < kLanesOfBlock; distance *= 2) {
    const uint32_t other = __shfl_xor_sync(cuda::kAllLanes, largest, distance);
    largest = other > largest ? other : largest;
  }
  if (span.count == 0) return;
  const uint8_t scale = scale_of(largest);
  const float inverse = inverse_power_of(scale);
  uint8_t* codes = static_cast<uint8_t*>(state.values) + span.at;
  for (int i = 0; i < span.count; ++i) {
    codes[i] = to_mxfp8(numbers[i], inverse, rounding_noise(numbers[i], salt));
  }
  if (span.at % kMomentBlock == 0) state.scales[span.at / kMomentBlock] = scale;
}

__device__ inline void store_state(const float* values, uint32_t salt, const Span& span,
                                   const DeviceState& state) {
  if (state.format == MomentFormat::kFp32) {
    store_typed<float>(values, span, state.values);
  } else if (state.format == MomentFormat::kBf16) {
    uint16_t* to = static_cast<uint16_t*>(state.values) + span.at;
    for (int i = 0; i < span.count; ++i) {
      to[i] = bf16_bits(values[i], rounding_noise(values[i], salt));
    }
  } else {
    store_mxfp8(values, salt, span, state);
  }
}

// `values` become what the master holds then.
__device__ inline void store_master(float* values, int64_t step, const Span& span,
                                    const RulePointers& p) {
  if (p.rounds_at_random) {
    uint16_t* to = static_cast<uint16_t*>(p.master) + span.at;
    const uint32_t salt = weight_salt(p.noise.key, step);
    const auto first = static_cast<uint32_t>(p.noise.first + span.at);
    for (int i = 0; i < span.count; ++i) {
      to[i] = bf16_bits(values[i], weight_noise(salt, first + static_cast<uint32_t>(i)));
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(to[i]) << 16);
    }
    return;
  }
  store_floats(values, p.master_dtype, span, p.master);
  for (int i = 0; i < span.count; ++i) {
    if (p.master_dtype == DType::kBF16)
      values[i] = static_cast<float>(static_cast<BF16>(values[i]));
    if (p.master_dtype == DType::kF16) values[i] = static_cast<float>(static_cast<F16>(values[i]));
  }
}

template <class Factors>
__device__ void update_span(const Factors& factors, float grad_scale, int64_t step,
                            const RulePointers& p, const Span& span) {
  float weight[kPack] = {}, grad[kPack] = {}, numbers[kMostStates][kPack] = {};
  load_floats(p.master, p.master_dtype, span, weight);
  load_floats(p.grad, p.grad_dtype, span, grad);
  for (int j = 0; j < p.state_count; ++j) load_state(p.states[j], span, numbers[j]);
  for (int i = 0; i < span.count; ++i) {
    RuleState state{{numbers[0][i], numbers[1][i], numbers[2][i]}};
    update_element(factors, weight[i], grad[i] * grad_scale, state);
    for (int j = 0; j < kMostStates; ++j) numbers[j][i] = state.values[j];
  }
  store_master(weight, step, span, p);
  for (int j = 0; j < p.state_count; ++j) {
    store_state(numbers[j], noise_salt(step, j), span, p.states[j]);
  }
  if (p.copy != nullptr) store_floats(weight, p.copy_dtype, span, p.copy);
}

// Calls `use` for the packs of this thread; whole warps come together to the end.
template <class Use>
__device__ void for_each_span(int64_t numel, bool aligned, const Use& use) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = (numel + kPack - 1) / kPack;
  const int64_t end = (packs + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp;
  for (int64_t pack = first; pack < end; pack += threads) {
    const int64_t left = numel - pack * kPack;
    const int count = left <= 0 ? 0 : (left < kPack ? static_cast<int>(left) : kPack);
    use(Span{.at = pack * kPack, .count = count, .whole = aligned && count == kPack});
  }
}

template <class Rule, class Factors>
__global__ void rule_kernel(int64_t numel, Rule rule, const StepInputs* inputs,
                            const StepOutcome* outcome, RulePointers p) {
  if (outcome->skip != 0) return;
  // Their divisions in fp64 are dear: one thread makes them for its block.
  DS_SHARED(Factors, shared, 1);
  if (threadIdx.x == 0) shared[0] = factors_of(rule, *inputs);
  __syncthreads();
  const Factors factors = shared[0];
  const float grad_scale = outcome->grad_scale;
  const int64_t step = inputs->step;
  for_each_span(numel, p.aligned,
                [&](const Span& span) { update_span(factors, grad_scale, step, p, span); });
}

__global__ void unpack_kernel(int64_t numel, DeviceState state, float* numbers) {
  for_each_span(numel, false, [&](const Span& span) {
    float values[kPack] = {};
    load_state(state, span, values);
    store_typed<float>(values, span, numbers);
  });
}

__global__ void pack_kernel(int64_t numel, const float* numbers, DeviceState state) {
  for_each_span(numel, false, [&](const Span& span) {
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
                 .state_count = narrow<int>(args.states.size()),
                 .aligned = lies_in_packs(args.master) && lies_in_packs(args.grad) &&
                            lies_in_packs(args.copy)};
  for (int j = 0; j < p.state_count; ++j) {
    p.states[j] = device_state(nth(args.states, j));
    p.aligned = p.aligned && lies_in_packs(nth(args.states, j).values);
  }
  using Factors = decltype(factors_of(rule, scalars.inputs()));
  const int64_t n = args.master.numel();
  cuda::launch("rule_update", rule_kernel<Rule, Factors>, cuda::shape_for((n + kPack - 1) / kPack),
               stream, n, rule, &scalars.inputs(), &scalars.outcome(), p);
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
