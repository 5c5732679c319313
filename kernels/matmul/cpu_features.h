// What the kernels use of this processor, as oneDNN and our own vector code see it, for people who
// ask why a machine is slow.
#pragma once

#include <string>

namespace ds::kernels {

struct CpuFeatures {
  std::string onednn_version;  // of the library that was loaded: "2.6.3"
  std::string onednn_isa;      // the widest instructions it uses here: "AVX512-BF16"
  // Our own code uses these: "AVX-512", "AVX2", "NEON", "plain C++"; "AVX-512, AVX512-BF16 in
  // attention" if attention on bf16 multiplies bf16 (kernels/attention/attention_cpu_bf16.h).
  std::string vectors;
  // Products in bf16 have instructions of their own and use them; else fp32's.
  bool bf16_products = false;
};

CpuFeatures cpu_features();

}  // namespace ds::kernels
