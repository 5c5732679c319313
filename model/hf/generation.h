// Which tokens end a text, by the words of a Hugging Face folder: generation_config.json where it
// says so, else config.json. An id may be one number, a list, or null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

// Nothing where neither file speaks of it (or says null). DataError for what is no id.
std::optional<std::vector<int32_t>> read_eos_ids(FileSystem& files, const std::string& folder);

}  // namespace ds
