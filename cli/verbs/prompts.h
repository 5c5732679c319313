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
  std::string text;  // or a conversation, as JSON
  std::vector<CarriedField> carried;
  bool begins_itself = false;  // with the tokens that begin a text, as those of chat templates do
};

// A text each, with nothing else.
std::vector<PromptRecord> records_of(std::vector<std::string> texts);

// The same of JSON lines: the field "prompt", or else "text", of each line that is not empty, in
// order. Other fields are carried; DataError "source:line: ..." for those that the output has
// fields of the same name for, for those that are options in other hands (temperature, max_tokens
// ...), which would be believed to count, and for what is no such line. UsageError where there is
// no line.
std::vector<PromptRecord> records_of_json_lines(std::string_view text, const std::string& source);

// Conversations, one JSON value after the other. UsageError where there is none; DataError
// "source:line: ..." for what is no JSON.
std::vector<PromptRecord> records_of_conversations(std::string_view text,
                                                   const std::string& source);

// Reads a file, "-": standard input, for a verb. InputMissing for a file that cannot be read.
std::string read_prompt_file(const std::string& path, const std::string& verb = "generate");

}  // namespace ds
