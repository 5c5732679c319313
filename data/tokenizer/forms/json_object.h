// The small JSON files beside a tokenizer: each is one object.
#pragma once

#include <rapidjson/document.h>

#include <string>

#include "core/files/file.h"

namespace ds {

// DataError, with the place, for what is no JSON object and for a file of more than `largest`
// bytes.
rapidjson::Document read_json_object(FileSystem& files, const std::string& path, int64_t largest);

}  // namespace ds
