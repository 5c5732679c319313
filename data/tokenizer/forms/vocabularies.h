// Tokenizers of before tokenizer.json: a vocabulary alone, or with its merges apart. What they do
// not say follows from the class that the tokenizer_config.json beside them names, as in
// transformers; a class that is not known is refused by name.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

std::string text_of_word_pieces(FileSystem& files, const std::string& path);  // vocab.txt
std::string text_of_byte_pairs(FileSystem& files, const std::string& path);   // vocab.json

}  // namespace ds
