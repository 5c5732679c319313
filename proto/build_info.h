// Which build this is: what --version prints and what a rank must match when it joins.
#pragma once

#include <string>

namespace ds {

struct BuildInfo {
  const char* version;  // semantic version
  // Commit, with "-dirty" where the tree had changes; "unknown" outside its repository.
  const char* git_id;
  bool has_cuda;  // ranks can train on GPUs; the emulated device does not count
  // For which GPUs there are kernels: "sm_80 sm_90 PTX 90", or "emulated"; empty: there are none.
  const char* cuda_kernels;
  bool has_mpi;
  bool has_failpoints;   // tests can make it fail: no release
  const char* compiler;  // "GNU 12.2.0"
  const char* build_type;
  const char* sanitizers;  // empty: none
};

BuildInfo build_info();

// "CUDA kernels sm_80 sm_90 PTX 90; MPI yes"
std::string built_in_text(const BuildInfo& build);

// Ranks can train on a device that is none: the CPU executes its kernels.
bool emulates_cuda(const BuildInfo& build);

// version+git_id: two programs with the same text were built from the same source.
std::string build_id();

constexpr int kProtocolVersion = 3;  // raised with every incompatible change of control.proto

}  // namespace ds
