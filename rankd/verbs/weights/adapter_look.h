// What `dslaunch check FOLDER` tells of a folder of low-rank adapters, as peft writes it.
#pragma once

#include <optional>

#include "config/families/list.h"
#include "core/files/file.h"
#include "rankd/verbs/weights/folder_look.h"

namespace ds {

// Adds what they are, which model they belong to, and whether their weights fit it. Returns that
// model with its adapters; nothing where it is not here or has no place for them.
std::optional<ModelConfig> look_at_adapters(FileSystem& files, ModelFolderLook& found);

}  // namespace ds
