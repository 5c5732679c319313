// The forms in which folders bring a tokenizer. Each of them but tokenizer.json itself is written
// anew as a tokenizer.json that says the same, so that one reader reads all of them.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

// What people are told that is read here.
inline constexpr const char* kTokenizerFiles =
    "tokenizer.json, vocab.txt, vocab.json with merges.txt, tokenizer.model, tekken.json, "
    "*.tiktoken";

// The file of a folder that its tokenizer is read from, or nothing where none is known; the first
// of several.
std::optional<std::string> tokenizer_file_in(FileSystem& files, const std::string& folder);

// The folder in which a tokenizer's files lie: that folder, or the one of that file.
std::string tokenizer_folder(FileSystem& files, const std::string& name_or_path);

// The names by which such files are found, in the order in which they are looked for.
std::vector<std::string> tokenizer_file_names();

// What the file at `path` is called in a folder of its own, so that it is found there.
std::string tokenizer_file_name(const std::string& path);
// Whether it is of a form that other files of its folder are no part of, whatever its name.
bool stands_alone(const std::string& path);

// The text of the tokenizer.json that says what the file at `path` says; of an unknown name the
// file's own. InputMissing, DataError, Unsupported, naming the file.
std::string tokenizer_text(FileSystem& files, const std::string& path);
// That text, parsed. DataError unless it is one JSON object.
rapidjson::Document tokenizer_document(FileSystem& files, const std::string& path);

// The token that the file itself names for a role ("eos_token"), as a model of SentencePiece does;
// nothing for a tokenizer.json, which names none.
std::optional<std::string> token_of_form(FileSystem& files, const std::string& path,
                                         const std::string& role);

}  // namespace ds
