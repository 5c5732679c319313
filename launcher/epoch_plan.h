// What an epoch is given before it starts, and what it leaves in the machine when it is over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/world.h"

namespace ds {

// Fresh tokens and a fresh rendezvous name for these ranks. Throws InternalError.
WorldPlan make_epoch_plan(int64_t epoch, std::vector<RankPlacement> ranks);

// Removes shared memory that a killed rank could not. Ours alone: the name is random.
void remove_shared_memory(const std::string& rendezvous);

// The newest epoch that was started in this run directory, or that opened its checkpoints, as far as it can be seen
// from here; 0: none. A launch begins with the one after it, so that what an earlier launch left running can no
// longer commit.
int64_t newest_epoch(const std::filesystem::path& run_directory);
// To be called before any process of the epoch starts: its ranks record it beside the checkpoints only when
// they are admitted, and an earlier launch may have ended between. Throws IoError.
void note_epoch(const std::filesystem::path& run_directory, int64_t epoch);

}  // namespace ds
