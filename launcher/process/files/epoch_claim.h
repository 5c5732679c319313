// Epoch numbers of a run directory, each given out once: a claim is a file that only one can
// create, also on a network file system. So two launchers that run at the same time, by whatever
// mistake, never number their epochs alike, and the fence beside the checkpoints
// (checkpoint/commit.h) shuts out the older one.
#pragma once

#include <cstdint>
#include <string>

#include "core/files/file.h"

namespace ds {

// The newest epoch that was claimed in this run directory, or that opened its checkpoints, as far
// as it can be seen from here; 0: none. A launch begins with a later one, so that what an earlier
// launch left running can no longer commit.
int64_t newest_epoch(FileSystem& files, const std::string& run_directory);

// Claims the first number that is at least `wanted` and newer than all there are, for `holder`
// (random, of this epoch alone). To be called before any process of the epoch starts: its ranks
// record it beside the checkpoints only when they are admitted, and an earlier launch may have
// ended between. Not synced: what a crash of the machine takes away, it takes with the processes
// that it was claimed for. Throws IoError.
int64_t claim_epoch(FileSystem& files, const std::string& run_directory, int64_t wanted,
                    const std::string& holder);

}  // namespace ds
