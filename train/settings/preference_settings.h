// What a preference loss is to be, of a configuration (pure).
#pragma once

#include <optional>

#include "config/config.h"
#include "kernels/preference/preference.h"

namespace ds {

// Nothing: samples are no pairs.
std::optional<kernels::PreferenceRule> preference_rule(const Config& config);
// Whether samples are pairs that a reference is asked about.
bool asks_reference(const Config& config);

}  // namespace ds
