// Chooses at run time among the versions of a function that Highway compiled (foreach_target.h). In
// place of HWY_EXPORT and HWY_DYNAMIC_DISPATCH, which need libhwy: that measures the clock while it
// is loaded, 3 ms in every rank.
#pragma once

#include <hwy/targets.h>

namespace ds::kernels {

// What this CPU has of the targets we compile for (cmake/ds_dependencies.cmake); plain C++ always.
const hwy::ChosenTarget& simd_target();

// Whether this CPU multiplies pairs of bf16 numbers by an instruction of its own (AVX512-BF16),
// and whether that is known to be faster than fp32's: on AMD's since Zen 4; on Intel's nothing was
// measured. ONEDNN_MAX_CPU_ISA, which limits oneDNN's products, limits the second, too.
bool has_bf16_dots();
bool prefers_bf16_dots();

}  // namespace ds::kernels

// Once per function, in namespace scope, where HWY_ONCE holds; then call DS_SIMD(name)(arguments).
#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define DS_SIMD_EXPORT(name) HWY_EXPORT(name)
#define DS_SIMD(name) HWY_STATIC_DISPATCH(name)
#else
#define DS_SIMD_EXPORT(name)                                                       \
  static decltype(&HWY_STATIC_DISPATCH(name)) const HWY_DISPATCH_TABLE(            \
      name)[HWY_MAX_DYNAMIC_TARGETS + 2] = {nullptr, HWY_CHOOSE_TARGET_LIST(name), \
                                            HWY_CHOOSE_FALLBACK(name)}
#define DS_SIMD(name) (*(HWY_DISPATCH_TABLE(name)[ds::kernels::simd_target().GetIndex()]))
#endif
