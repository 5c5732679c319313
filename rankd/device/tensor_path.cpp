#include "rankd/device/tensor_path.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds {
namespace {

// Empty: nothing speaks against it.
std::string why_no_nccl(std::span<const TensorFacts> ranks, const std::string& own_lack) {
  const auto lacking = std::ranges::find(ranks, false, &TensorFacts::has_nccl);
  if (lacking != ranks.end()) {
    const std::string rank = fmt::format("rank {} has no NCCL", lacking - ranks.begin());
    return own_lack.empty() ? rank : fmt::format("{}: {}", rank, own_lack);
  }
  for (size_t one = 0; one < ranks.size(); ++one) {
    for (size_t other = one + 1; other < ranks.size(); ++other) {
      if (ranks[one].gpu != ranks[other].gpu) continue;
      return fmt::format("ranks {} and {} share a GPU, and NCCL wants one for each", one, other);
    }
  }
  return "";
}

}  // namespace

NcclWish nccl_wish(CommunicationBackend asked) {
  switch (asked) {
    case CommunicationBackend::kAuto:
      return NcclWish::kIfPossible;
    case CommunicationBackend::kNccl:
      return NcclWish::kRequired;
    case CommunicationBackend::kShm:
    case CommunicationBackend::kTcp:
    case CommunicationBackend::kMpi:
      return NcclWish::kNever;
  }
  throw InternalError("a backend that says nothing of NCCL");
}

TensorPathChoice choose_tensor_path(NcclWish wish, std::span<const TensorFacts> ranks,
                                    const std::string& own_lack) {
  if (wish == NcclWish::kNever) {
    return {ranks.size() == 1 ? TensorPath::kAlone : TensorPath::kStaged, ""};
  }
  const std::string why = why_no_nccl(ranks, own_lack);
  if (wish == NcclWish::kRequired && !why.empty()) {
    throw Unsupported(
        fmt::format("communication.backend: nccl, but {}; auto goes on without", why));
  }
  if (ranks.size() == 1) return {TensorPath::kAlone, ""};
  return {why.empty() ? TensorPath::kNccl : TensorPath::kStaged, why};
}

}  // namespace ds
