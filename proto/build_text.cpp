#include <fmt/format.h>

#include "proto/build_info.h"

namespace ds {

std::string built_in_text(const BuildInfo& build) {
  const char* const mpi = build.has_mpi ? "yes" : "no";
  if (*build.cuda_kernels == '\0') return fmt::format("CUDA no; MPI {}", mpi);
  return fmt::format("CUDA kernels {}{}; MPI {}", build.cuda_kernels,
                     build.has_cuda ? "" : ", not used for training yet", mpi);
}

}  // namespace ds
