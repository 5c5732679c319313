#include "kernels/cpu/simd.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace ds::kernels {
namespace {

int64_t targets_of_this_cpu() {
  int64_t targets = 0;
#if HWY_ARCH_X86
  // The names under which Highway groups instructions; the operating system's support is included.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  return targets;
}

struct Choice {
  Choice() { target.Update(targets_of_this_cpu()); }
  hwy::ChosenTarget target;
};

}  // namespace

const hwy::ChosenTarget& simd_target() {
  static const Choice choice;
  return choice.target;
}

bool has_bf16_dots() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

bool prefers_bf16_dots() {
#if defined(__x86_64__)
  static const bool prefers = __builtin_cpu_is("amd") && has_bf16_dots() &&
                              dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_bf16;
  return prefers;
#else
  return false;
#endif
}

}  // namespace ds::kernels
