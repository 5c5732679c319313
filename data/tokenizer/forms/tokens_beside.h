// A tokenizer.json with what the files beside it say of added tokens, as transformers joins them.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

// `text`: the tokenizer.json at `path`. How an added token is looked for is said last by the
// added_tokens_decoder of tokenizer_config.json; tokens that only that, or added_tokens.json, lists
// are added with their ids; tokens in roles that the vocabulary has are looked for. Those in roles
// that it has not are listed as "tokens_not_looked_for". The same text where nothing is new.
// DataError for a file that is no JSON object, and for an id that another token has.
std::string with_tokens_beside(FileSystem& files, const std::string& path, std::string text);

}  // namespace ds
