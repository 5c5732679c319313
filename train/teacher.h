// The second model of an engine, which the first one learns from.
#pragma once

#include <span>
#include <string>

#include "core/files/file.h"
#include "model/hf/weights.h"
#include "train/engine.h"

namespace ds {

// The weights of a teacher, of which all are stored. ConfigError, else as the readers of folders
// throw.
HfWeights open_teacher(FileSystem& files, const std::string& folder,
                       std::span<const ParamSpec> specs);

// All ranks: the second model gets the weights of the teacher's folder; without one nothing is
// done. Passes compute with them once the store has published. Throws as open_teacher() throws.
void load_teacher(Engine& engine, FileSystem& files);

}  // namespace ds
