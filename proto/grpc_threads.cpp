#include "proto/grpc_threads.h"

#include <unistd.h>

#include <algorithm>

namespace ds {

int grpc_cores() { return static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)); }

int grpc_threads_of_client(int cores) {
  constexpr int kSingles = 5;  // timers, executors, the resolver
  return kSingles + std::clamp(cores, 2, 32);
}

int grpc_threads_of_server(int cores) {
  return grpc_threads_of_client(cores) + std::clamp(cores / 2, 2, 16);
}

}  // namespace ds
