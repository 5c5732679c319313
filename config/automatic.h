// What "auto" comes to where it decides what is trained (pure). Hugging Face's Trainer writes its
// own arguments there; no trainer stands above this program, so that each is said.
#pragma once

#include "config/config.h"
#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

// Settles what follows from other keys, the peak of a warm-up that is the optimizer's rate, and
// notes what every "auto" of precision, optimizer, schedule and clipping is taken as.
void settle_automatic(const Value& document, Config& config, Problems& problems);

}  // namespace ds
