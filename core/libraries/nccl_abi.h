// What NCCL's functions take and return since NCCL 2.19, under names of our own, so that what calls
// them is compiled, and on the emulated device tested, where nccl.h is not. Where it is, a test
// compares the two (tests/core/nccl_abi_test.cpp).
#pragma once

#include <array>
#include <climits>
#include <cstddef>

namespace ds {

struct NcclHandle;  // NCCL's communicator; only ever pointed to

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,  // of communicators that do not block: not through with the last call
};

enum class NcclType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

enum class NcclReduce : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };

struct NcclId {  // by which ranks find each other; passed by value
  std::array<char, 128> bytes;
};

// The part that 2.19 has. Newer ones have more behind it, and read `size` to know how much there
// is.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21900;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

using NcclStream = void*;  // cudaStream_t, as DeviceQueue::native() has it

}  // namespace ds
