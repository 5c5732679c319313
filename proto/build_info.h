// Which build this is: what --version prints and what a rank must match when it joins.
#pragma once

#include <string>

namespace ds {

struct BuildInfo {
  const char* version;   // semantic version
  const char* git_id;    // commit, with "-dirty" where the tree had changes
  bool has_cuda;         // this build has the CUDA halves
  bool has_mpi;
};

BuildInfo build_info();

// version+git_id: two programs with the same text were built from the same source.
std::string build_id();

constexpr int kProtocolVersion = 2;  // raised with every incompatible change of control.proto

}  // namespace ds
