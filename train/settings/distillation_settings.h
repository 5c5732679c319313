// What a configuration says of a teacher, and whether a model can learn from it (pure).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/settings/engine_options.h"

namespace ds {

// Nothing: there is no teacher.
std::optional<DistillationOptions> distillation_options(const TrainSection& train);
// Why the model cannot learn from its teacher, by samples of such a length, in words that begin
// with a key of the section; empty: it can, or has none.
std::string teacher_conflict(const Config& config, const ModelConfig& model, int64_t length);
// What is worth knowing of a teacher that it can learn from.
std::vector<std::string> teacher_notes(const ModelConfig& model);

}  // namespace ds
