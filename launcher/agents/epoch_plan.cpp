#include "launcher/agents/epoch_plan.h"

#include <fmt/format.h>

#include "core/text/secrecy.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

constexpr size_t kTokenBytes = 32;    // 256 bits
constexpr size_t kClaimBytes = 16;    // 128 bits
constexpr size_t kShmNameBytes = 16;  // 128 bits

}  // namespace

WorldPlan make_epoch_plan(std::vector<RankPlacement> ranks) {
  WorldPlan plan;
  plan.claim = to_hex(random_bytes(kClaimBytes));
  plan.ranks = std::move(ranks);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    plan.tokens.push_back(random_bytes(kTokenBytes));
  }
  plan.shm_name = "dslaunch-" + to_hex(random_bytes(kShmNameBytes));
  return plan;
}

void WorldPlan::forget_credentials() {
  for (RankCredential& credential : credentials) {
    wipe(credential.private_key);
  }
  credentials.clear();
  wipe(tokens);
}

}  // namespace ds
