// `dslaunch tokenize --output PREFIX`: token ids of texts in files to train on.
#pragma once

#include <string>

#include "cli/verbs/data/tokenize.h"
#include "core/files/file.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// The files that it reads and writes, and the tokenizer with the place that it lies in.
struct TokenFilesPlace {
  FileSystem& inputs;
  FileSystem& outputs;
  const Tokenizer& tokenizer;
  const std::string& tokenizer_name;
};

// Writes them and prints what they are; how far it is goes to standard error. Returns the exit
// code; throws Error, and then no file is there that was not there before.
int write_token_files(const TokenizeArgs& args, const TokenFilesPlace& place);

}  // namespace ds
