// What `dslaunch generate` is to continue: prompts, each with what else its source said of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

// A field of a prompt's line that only its reader knows: it goes to the JSON output as it is.
struct CarriedField {
  std::string name;
  std::string json;  // the value
};

struct PromptRecord {
  std::string text;
  std::vector<CarriedField> carried;
};

// A text each, with nothing else.
std::vector<PromptRecord> records_of(std::vector<std::string> texts);

// The same of JSON lines: the field "prompt", or else "text", of each line that is not empty, in
// order. Other fields are carried; DataError "source:line: ..." for those that the output has
// fields of the same name for, for those that are options in other hands (temperature, max_tokens
// ...), which would be believed to count, and for what is no such line. UsageError where there is
// no line.
std::vector<PromptRecord> records_of_json_lines(std::string_view text, const std::string& source);

// Reads them from a file, "-": standard input. InputMissing for a file that cannot be read.
std::vector<PromptRecord> read_prompt_file(const std::string& path);

}  // namespace ds
