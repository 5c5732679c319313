#include "cli/verbs/prompts.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "cli/standard_input.h"
#include "config/reader/json_members.h"
#include "config/reader/json_values.h"
#include "core/files/input_files.h"
#include "core/status/error.h"
#include "core/text/byte_order_mark.h"

namespace ds {
namespace {

// Fields of the output (generate/continuation.cpp) beside the text.
constexpr std::array<std::string_view, 9> kOutput = {"sample",       "prompt_tokens", "tokens",
                                                     "ids",          "finish_reason", "seconds",
                                                     "tokens_per_s", "sampling",      "logprobs"};

// What others take line by line and we take once for all prompts. A prompt that asks for what it
// does not get would be believed to have got it.
struct LineOption {
  std::string_view name;
  std::string_view instead;  // empty: we have none
};
constexpr std::array<LineOption, 18> kOptions = {{{"temperature", "--temperature"},
                                                  {"top_k", "--top-k"},
                                                  {"top_p", "--top-p"},
                                                  {"min_p", "--min-p"},
                                                  {"repetition_penalty", "--repetition-penalty"},
                                                  {"seed", "--seed"},
                                                  {"stop", "--stop"},
                                                  {"max_tokens", "--max-tokens"},
                                                  {"max_new_tokens", "--max-tokens"},
                                                  {"max_length", "--max-tokens"},
                                                  {"num_samples", "--num-samples"},
                                                  {"n", "--num-samples"},
                                                  {"do_sample", "--temperature"},
                                                  {"presence_penalty", ""},
                                                  {"frequency_penalty", ""},
                                                  {"logit_bias", ""},
                                                  {"num_beams", ""},
                                                  {"stream", ""}}};

void check_carried(const std::string& name, const std::string& place) {
  if (name == "prompt" || name == "text" || std::ranges::find(kOutput, name) != kOutput.end()) {
    throw DataError(fmt::format(
        "{}: the field \"{}\" has the name of one that the output has; rename it", place, name));
  }
  const auto* const option = std::ranges::find(kOptions, name, &LineOption::name);
  if (option == kOptions.end()) return;
  throw DataError(fmt::format(
      "{}: the field \"{}\" is no option of one prompt; {}, or rename it if it is to be carried "
      "through",
      place, name,
      option->instead.empty() ? "leave it out"
                              : fmt::format("give {} for all of them", option->instead)));
}

PromptRecord record_of(std::string_view line, const std::string& place) {
  std::vector<JsonMember> members = json_members(line, place);
  auto text = std::ranges::find(members, "prompt", &JsonMember::name);
  if (text == members.end()) text = std::ranges::find(members, "text", &JsonMember::name);
  if (text == members.end()) {
    throw DataError(
        fmt::format("{}: there is no field \"prompt\" or \"text\" with the text", place));
  }
  if (!text->is_string) {
    throw DataError(fmt::format("{}: the field \"{}\" is {}, expected a string", place, text->name,
                                text->json.substr(0, 40)));
  }
  PromptRecord record{.text = text->text, .carried = {}};
  for (JsonMember& member : members) {
    if (&member == &*text) continue;
    check_carried(member.name, place);
    record.carried.push_back({.name = std::move(member.name), .json = std::move(member.json)});
  }
  return record;
}

}  // namespace

std::vector<PromptRecord> records_of(std::vector<std::string> texts) {
  std::vector<PromptRecord> records;
  for (std::string& text : texts) records.push_back({.text = std::move(text), .carried = {}});
  return records;
}

std::vector<PromptRecord> records_of_json_lines(std::string_view text, const std::string& source) {
  text = without_mark(text);
  std::vector<PromptRecord> records;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      records.push_back(record_of(line, fmt::format("{}:{}", source, number)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (records.empty()) {
    throw UsageError(fmt::format("no line of {} is a prompt", source));
  }
  return records;
}

std::vector<PromptRecord> records_of_conversations(std::string_view text,
                                                   const std::string& source) {
  text = without_mark(text);
  std::vector<PromptRecord> records;
  for (const JsonValueText& value : json_values(text, source)) {
    records.push_back({.text = std::string(value.text), .carried = {}});
  }
  if (records.empty()) throw UsageError(fmt::format("generate: {} has no conversation", source));
  return records;
}

std::string read_prompt_file(const std::string& path, const std::string& verb) {
  if (path == "-") return read_standard_input(verb);
  RealFileSystem real;
  InputFiles files(real);
  return files.read_text(path, kLargestInput);
}

}  // namespace ds
