#include "launcher/epoch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "core/secrecy.h"
#include "launcher/credentials.h"
#include "launcher/run_directory.h"

namespace ds {
namespace {

constexpr size_t kTokenBytes = 32;       // 256 bits
constexpr size_t kRendezvousBytes = 16;  // 128 bits

}  // namespace

WorldPlan make_epoch_plan(int64_t epoch, std::vector<RankPlacement> ranks) {
  WorldPlan plan;
  plan.epoch = epoch;
  plan.ranks = std::move(ranks);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    plan.tokens.push_back(random_bytes(kTokenBytes));
  }
  plan.rendezvous = "dslaunch-" + to_hex(random_bytes(kRendezvousBytes));
  return plan;
}

void remove_shared_memory(const std::string& rendezvous) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    if (entry.path().filename().string().starts_with(rendezvous)) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

void WorldPlan::forget_credentials() {
  for (RankCredential& credential : credentials) {
    wipe(credential.private_key);
  }
  credentials.clear();
}

int64_t newest_epoch(const std::filesystem::path& run_directory) {
  // The first is written by checkpoint/commit.h, which also refuses a number that is no epoch.
  constexpr int64_t kLargest = int64_t{1} << 53;
  int64_t newest = 0;
  for (const auto& path : {run_directory / "checkpoints" / "epoch", run_directory / "logs" / "epoch"}) {
    std::ifstream file(path);
    int64_t last = 0;
    if (file >> last && last <= kLargest) newest = std::max(newest, last);
  }
  return newest;
}

void note_epoch(const std::filesystem::path& run_directory, int64_t epoch) {
  write_whole_file(run_directory / "logs" / "epoch", fmt::format("{}\n", epoch));
}

}  // namespace ds
