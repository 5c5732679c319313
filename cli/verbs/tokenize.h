// `dslaunch tokenize [TEXT...] --tokenizer NAME`.
#pragma once

#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct TokenizeArgs {
  std::string tokenizer;           // "byte", a tokenizer.json, a folder, a run or a tag
  std::vector<std::string> texts;  // given as arguments
  std::vector<std::string> files;  // one text each; with neither: standard input
  bool lines = false;              // each line of files and standard input is a text of its own
  bool special_tokens = false;     // also what the tokenizer puts around a text
  bool count = false;              // only how many
  bool decode = false;             // from ids to texts
  bool json = false;
};

void describe_tokenize(VerbApp& app, TokenizeArgs& values);

}  // namespace ds
