// `dslaunch look-at-data`: samples as a model is given them, and what of them is learnt.
#pragma once

#include "cli/verbs/data/look_at_data.h"

namespace ds {

// Prints pages or objects. Returns the exit code; throws Error, Unsupported for a model that is
// trained on something else than next tokens.
int run_look_at_data(const LookAtDataArgs& args);

}  // namespace ds
