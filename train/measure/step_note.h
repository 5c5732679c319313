// What rank 0 said of the last steps, kept with the state after them (pure): it may have died
// before the launcher heard it, and whoever goes on from there says it again.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/settings/job.h"

namespace ds {

std::string to_notes(std::span<const StepMetrics> steps);  // one line each
// ValidationError if a line is no step.
std::vector<StepMetrics> read_step_notes(const std::string& notes);

}  // namespace ds
