// JSON files of which each is one object: a tokenizer's own and the small ones beside it.
#pragma once

#include <rapidjson/document.h>

#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// DataError, with the place, for what is no JSON object. `path`: the file that the text says it is.
rapidjson::Document parse_json_object(const std::string& text, const std::string& path);
// The same of a file, of at most `largest` bytes.
rapidjson::Document read_json_object(FileSystem& files, const std::string& path, int64_t largest);

std::string string_of(const rapidjson::Value& text);
// What an object has under a key, if that is not null; the last of a key that stands twice, as in
// Python. Null for what is no object.
const rapidjson::Value* last_member(const rapidjson::Value& object, std::string_view key);

}  // namespace ds
