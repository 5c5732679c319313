// What an epoch is given before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/process/world.h"

namespace ds {

// Fresh tokens, a fresh claim and a fresh rendezvous name for these ranks. Throws InternalError.
// Whoever starts it claims the number first (launcher/process/files/epoch_claim.h).
WorldPlan make_epoch_plan(std::vector<RankPlacement> ranks);

}  // namespace ds
