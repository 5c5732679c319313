// A small run from the dry run to the saved tag, on every kind of rank.
#pragma once

#include <algorithm>

#include "tests/support/files/temporary_directory.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/checkpointing.h"
#include "train/plan/dry_run.h"
#include "train/step/swap.h"

namespace ds::testing {

DeviceCeilings ceilings_of(HostAccess access);

// Loads what there is, trains up to `until`, saves. `options`: those of the setting, or like them.
Outcome train(const Setting& setting, const EngineOptions& options, FileSystem& files,
              int64_t until);
Outcome train(const Setting& setting, FileSystem& files, int64_t until);

}  // namespace ds::testing
