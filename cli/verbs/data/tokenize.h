// `dslaunch tokenize [TEXT...] --tokenizer NAME`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/chat_options.h"

namespace ds {

// Files of token ids that are written instead of what is printed.
struct TokenFileArgs {
  std::optional<std::string> output;     // the prefix of their names
  std::optional<std::string> format;     // megatron, deepspeed or llmc
  std::optional<std::string> field;      // of JSON lines
  std::optional<std::string> separator;  // after each document
  std::optional<int64_t> shard_tokens;   // of llm.c, at most
  std::optional<int> threads;            // none: one per core
  bool force = false;                    // files that are there are replaced
};

struct TokenizeArgs {
  std::string tokenizer;           // "byte", a tokenizer's file, a folder, a run or a tag
  std::vector<std::string> texts;  // given as arguments
  std::vector<std::string> files;  // one text each, with `to_files` as `data.train` has them; with
                                   // neither: standard input
  bool lines = false;              // each line of files and standard input is a text of its own
  bool special_tokens = false;     // also what the tokenizer puts around a text
  bool count = false;              // only how many
  bool decode = false;             // from ids to texts
  bool json = false;
  ChatArgs chat;
  bool generation_prompt = false;  // the text goes on until where a reply begins
  bool render = false;             // the text itself, and no ids
  TokenFileArgs to_files;
};

void describe_tokenize(VerbApp& app, TokenizeArgs& values);

}  // namespace ds
