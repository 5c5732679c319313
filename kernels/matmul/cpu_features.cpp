#include "kernels/matmul/cpu_features.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/device/stream.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/matmul/gemm.h"

namespace ds::kernels {
namespace {

std::string name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2-VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX512-VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX512-BF16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AMX";
    default:
      return fmt::format("number {} of oneDNN's list", static_cast<int>(isa));
  }
}

// Names what kernels/cpu/simd.h chose. The table of versions has two more entries than targets, one
// at each end.
std::string vector_target() {
#if HWY_ARCH_X86
  const auto index = static_cast<int>(simd_target().GetIndex());
  if (index < 1 || index > HWY_MAX_DYNAMIC_TARGETS) return "plain C++";
  const int64_t target = int64_t{1} << (HWY_HIGHEST_TARGET_BIT - HWY_MAX_DYNAMIC_TARGETS + index);
  if (target != HWY_AVX3) return hwy::TargetName(target);
  return prefers_bf16_dots() ? "AVX-512, AVX512-BF16 in attention" : "AVX-512";
#elif HWY_ARCH_ARM_A64
  return "NEON";
#else
  return "plain C++";
#endif
}

}  // namespace

CpuFeatures cpu_features() {
  const dnnl_version_t& version = *dnnl_version();
  ThreadPool pool(1);
  HostMemory memory;
  Stream stream({.memory = &memory, .pool = &pool});
  return {.onednn_version = fmt::format("{}.{}.{}", version.major, version.minor, version.patch),
          .onednn_isa = name_of(dnnl::get_effective_cpu_isa()),
          .vectors = vector_target(),
          .bf16_products = detail::machine_prefers_onednn(stream, DType::kBF16)};
}

}  // namespace ds::kernels
