// Our words for NCCL's types against its own header, where the build has found one.
#include "core/libraries/nccl_abi.h"

#include <nccl.h>

#include <type_traits>

#include "tests/support/catch.h"

namespace ds {
namespace {

template <class Ours, class Theirs>
constexpr bool equal(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(equal(NcclResult::kSuccess, ncclSuccess));
static_assert(equal(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(equal(NcclResult::kSystemError, ncclSystemError));
static_assert(equal(NcclResult::kInternalError, ncclInternalError));
static_assert(equal(NcclResult::kInvalidArgument, ncclInvalidArgument));
static_assert(equal(NcclResult::kInvalidUsage, ncclInvalidUsage));
static_assert(equal(NcclResult::kRemoteError, ncclRemoteError));
static_assert(equal(NcclResult::kInProgress, ncclInProgress));
static_assert(equal(NcclType::kInt8, ncclInt8) && equal(NcclType::kUint8, ncclUint8));
static_assert(equal(NcclType::kInt32, ncclInt32) && equal(NcclType::kUint32, ncclUint32));
static_assert(equal(NcclType::kInt64, ncclInt64) && equal(NcclType::kUint64, ncclUint64));
static_assert(equal(NcclType::kFloat16, ncclFloat16) && equal(NcclType::kFloat32, ncclFloat32));
static_assert(equal(NcclType::kFloat64, ncclFloat64) && equal(NcclType::kBfloat16, ncclBfloat16));
static_assert(equal(NcclReduce::kSum, ncclSum) && equal(NcclReduce::kProduct, ncclProd));
static_assert(equal(NcclReduce::kMax, ncclMax) && equal(NcclReduce::kMin, ncclMin));
static_assert(equal(NcclReduce::kAverage, ncclAvg));
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && NcclConfig::kUndefined == INT_MIN);

static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
#define DS_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(NcclConfig, ours) == offsetof(ncclConfig_t, theirs))
DS_SAME_PLACE(size, size);
DS_SAME_PLACE(magic, magic);
DS_SAME_PLACE(version, version);
DS_SAME_PLACE(blocking, blocking);
DS_SAME_PLACE(cga_cluster_size, cgaClusterSize);
DS_SAME_PLACE(min_ctas, minCTAs);
DS_SAME_PLACE(max_ctas, maxCTAs);
DS_SAME_PLACE(net_name, netName);
DS_SAME_PLACE(split_share, splitShare);

// Pointers for pointers, numbers and enumerations of one size, structs of one size.
template <class Ours, class Theirs>
constexpr bool same_argument =
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    sizeof(Ours) == sizeof(Theirs) && std::is_class_v<Ours> == std::is_class_v<Theirs>;
template <class Ours, class Theirs>
constexpr bool same_call = false;
template <class R, class... A, class S, class... B>
constexpr bool same_call<R (*)(A...), S (*)(B...)> =
    sizeof...(A) == sizeof...(B) && same_argument<R, S> && (same_argument<A, B> && ...);

#define DS_FUNCTION(result, name, parameters) \
  static_assert(same_call<result(*) parameters, decltype(&::name)>);
#include "core/libraries/nccl_functions.inl"
#undef DS_FUNCTION

}  // namespace

TEST_CASE("a configuration of NCCL begins as NCCL's own does", "[core]") {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig ours;
  CHECK(ours.magic == theirs.magic);
  CHECK(ours.blocking == theirs.blocking);
  CHECK(ours.net_name == theirs.netName);
  CHECK(ours.split_share == theirs.splitShare);
  CHECK(ours.size <= theirs.size);
}

}  // namespace ds
