// Vocabularies of bytes by rank, which tiktoken reads: a file of its own form, or a tekken.json of
// Mistral. Each is written as a tokenizer.json whose model joins by the rank of what comes of it.
#pragma once

#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// Whether the bytes of a file begin as lines of base64 and rank do, which a model of SentencePiece
// never does.
bool are_ranked_lines(std::string_view bytes);

// `bytes`: those of the file at `path`. It has no pattern and no special tokens: they follow from
// its name where it is one of OpenAI's, or else from the class or the model beside it. Unsupported
// where neither is known, DataError for what is malformed.
std::string text_of_tiktoken(FileSystem& files, const std::string& path, std::string_view bytes);

std::string text_of_tekken(FileSystem& files, const std::string& path);

}  // namespace ds
