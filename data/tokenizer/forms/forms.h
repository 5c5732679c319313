// The forms in which folders bring a tokenizer. Each of them but tokenizer.json itself is written
// anew as the tokenizer.json that transformers makes of it, so that one reader reads all of them.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>

#include "core/files/file.h"

namespace ds {

// The file of a folder that its tokenizer is read from, or nothing where none is known; the first
// of several.
std::optional<std::string> tokenizer_file_in(FileSystem& files, const std::string& folder);

// Whether a file of this name is one of them, by whatever folder it is in.
bool is_tokenizer_file(const std::string& name);

// The text of the tokenizer.json that says what the file at `path` says; of an unknown name the
// file's own. InputMissing, DataError, Unsupported, naming the file.
std::string tokenizer_text(FileSystem& files, const std::string& path);
// That text, parsed. DataError unless it is one JSON object.
rapidjson::Document tokenizer_document(FileSystem& files, const std::string& path);

}  // namespace ds
