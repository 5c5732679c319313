// What every reader of values may rely on, checked once after all of a pickle is read (pure):
// containers never contain themselves, they are nested to a limited depth, and going through all of
// them, shared ones once for each place, takes a number of steps that the pickle's length bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/torch/value.h"

namespace ds {

inline constexpr int kDeepestTorchValue = 100;

// What is wrong with a value that was read from a pickle of so many bytes; empty: nothing.
std::optional<std::string> defect_of_value(const TorchValue& root, int64_t pickle_bytes);

}  // namespace ds
