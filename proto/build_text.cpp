#include <fmt/format.h>

#include <string_view>

#include "proto/build_info.h"

namespace ds {

bool emulates_cuda(const BuildInfo& build) {
  return std::string_view(build.cuda_kernels) == "emulated";
}

std::string built_in_text(const BuildInfo& build) {
  const char* const mpi = build.has_mpi ? "yes" : "no";
  if (*build.cuda_kernels == '\0') return fmt::format("CUDA no; MPI {}", mpi);
  return fmt::format("CUDA kernels {}; MPI {}", build.cuda_kernels, mpi);
}

}  // namespace ds
