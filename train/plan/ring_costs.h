// Attention as the ranks of a ring make it, played by one alone: what it takes has to be measured
// apart, because a job that is calibrated on one rank has whole sequences.
#pragma once

#include "train/settings/engine_options.h"

namespace ds {

// Once forward and backward, of all queries over half of the keys, on zeros. Sequences of `job` are
// of 2 tokens or more; one that is left over is not attended to.
void play_ring_attention(const EngineOptions& job, Stream& stream);

}  // namespace ds
