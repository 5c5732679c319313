// A model of SentencePiece, as the tokenizer.json that says the same: with its own kinds of model,
// normalizer and decoder, for those of PyPI tokenizers give other ids for some texts.
#pragma once

#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// `bytes`: those of the file at `path`. What is beside it says which class it is for, and so which
// tokens are put around a text and how pieces are numbered. DataError for a file that is no such
// model, Unsupported for a class that is not known.
std::string text_of_sentence_pieces(FileSystem& files, const std::string& path,
                                    std::string_view bytes);

}  // namespace ds
