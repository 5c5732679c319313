// Small JSON files of a Hugging Face folder beside its config.json.
#pragma once

#include <rapidjson/document.h>

#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// The value that a file holds; null where there is no file. DataError for what is no JSON.
rapidjson::Document json_in(FileSystem& files, const std::string& path);
// The same of an object; DataError for another value.
rapidjson::Document object_in(FileSystem& files, const std::string& path);
// The value of a key, the last one of a key that stands twice, as in Python; a null pointer where
// there is none, or it is null.
const rapidjson::Value* value_of(const rapidjson::Value& object, std::string_view key);

}  // namespace ds
