#include <array>

#include "data/tokenizer/read/parts.h"
#include "data/tokenizer/split/script_runs.h"

namespace ds {
namespace {

using Behavior = PreTokenizerStep::Behavior;

// The pattern of ByteLevel where a tokenizer.json does not bring its own (GPT-2).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
bool is_sign(char32_t c) { return !unicode::is_word(c) && !unicode::is_white_space(c); }

std::shared_ptr<const Pattern> characters(unicode::Property kind) {
  return std::make_shared<CharacterKinds>(std::vector{kind});
}

std::shared_ptr<const Pattern> runs(std::vector<unicode::Property> kinds) {
  return std::make_shared<CharacterKinds>(std::move(kinds), CharacterKinds::Take::kRuns);
}

struct BehaviorName {
  const char* name;
  Behavior behavior;
};
constexpr std::array kBehaviors{BehaviorName{"Isolated", Behavior::kIsolated},
                                BehaviorName{"Removed", Behavior::kRemoved},
                                BehaviorName{"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                BehaviorName{"MergedWithNext", Behavior::kMergedWithNext},
                                BehaviorName{"Contiguous", Behavior::kContiguous}};

Behavior behavior_named(const JsonPart& part, const std::string& name) {
  for (const BehaviorName& known : kBehaviors) {
    if (name == known.name) return known.behavior;
  }
  part.unsupported("the behavior " + name + " of " + part.type());
}

void add_byte_level(const JsonPart& part, ReadSteps& read) {
  PreTokenizerStep step;
  if (part.flag("add_prefix_space", true)) step.rewrite = prefix_space();
  if (part.flag("use_regex", true)) step.pattern = std::make_shared<Regex>(kGpt2Pattern);
  if (step.rewrite != nullptr || step.pattern != nullptr) read.steps.push_back(step);
  read.ends_in_byte_letters = true;
}

void add_space_sign(const JsonPart& part, ReadSteps& read) {
  const std::string sign = part.character("replacement");
  const std::string scheme = part.text("prepend_scheme", "always");
  PrependScheme prepend = PrependScheme::kNever;
  if (scheme == "always") {
    prepend = PrependScheme::kAlways;
  } else if (scheme == "first") {
    prepend = PrependScheme::kFirst;
  } else if (scheme != "never") {
    part.unsupported("the prepend_scheme " + scheme);
  }
  // Files of before 0.15 say it by a flag alone.
  if (!part.flag("add_prefix_space", true)) prepend = PrependScheme::kNever;
  PreTokenizerStep step{.rewrite = space_sign(sign, prepend),
                        .behavior = Behavior::kMergedWithNext};
  if (part.flag("split", true)) step.pattern = std::make_shared<Literal>(sign);
  read.steps.push_back(step);
}

void add_split(const JsonPart& part, ReadSteps& read) {
  const bool invert = part.flag("invert", false);
  PreTokenizerStep step{.pattern = read_pattern(part),
                        .behavior = behavior_named(part, part.text("behavior"))};
  if (step.behavior == Behavior::kRemoved && invert) {
    step.behavior = Behavior::kOnly;
  } else {
    step.invert = invert;
  }
  read.steps.push_back(step);
}

void add_bert(const JsonPart&, ReadSteps& read) {
  read.steps.push_back(
      {.pattern = characters(&unicode::is_white_space), .behavior = Behavior::kRemoved});
  read.steps.push_back({.pattern = characters(&unicode::is_punctuation)});
}

void add_white_space_split(const JsonPart&, ReadSteps& read) {
  read.steps.push_back(
      {.pattern = characters(&unicode::is_white_space), .behavior = Behavior::kRemoved});
}

void add_words(const JsonPart&, ReadSteps& read) {
  read.steps.push_back(
      {.pattern = runs({&unicode::is_word, &is_sign}), .behavior = Behavior::kOnly});
}

void add_punctuation(const JsonPart& part, ReadSteps& read) {
  read.steps.push_back({.pattern = characters(&unicode::is_punctuation),
                        .behavior = behavior_named(part, part.text("behavior", "Isolated"))});
}

void add_delimiter(const JsonPart& part, ReadSteps& read) {
  read.steps.push_back({.pattern = std::make_shared<Literal>(part.character("delimiter")),
                        .behavior = Behavior::kRemoved});
}

void add_digits(const JsonPart& part, ReadSteps& read) {
  const bool each = part.flag("individual_digits", false);
  read.steps.push_back(
      {.pattern = each ? characters(&unicode::is_number) : runs({&unicode::is_number})});
}

void add_fixed_length(const JsonPart& part, ReadSteps& read) {
  const size_t length = part.count("length", 5);
  if (length == 0) part.refuse("the length of FixedLength is 0");
  if (length > 65535) part.unsupported("a FixedLength of more than 65535");
  read.steps.push_back(
      {.pattern = std::make_shared<Regex>("(?s).{1," + std::to_string(length) + "}")});
}

void add_script_runs(const JsonPart&, ReadSteps& read) {
  read.steps.push_back({.pattern = script_runs(), .behavior = Behavior::kOnly});
}

struct StepKind {
  const char* type;
  void (*add)(const JsonPart& part, ReadSteps& read);
};
constexpr std::array kStepKinds{
    StepKind{"ByteLevel", &add_byte_level},
    StepKind{"Metaspace", &add_space_sign},
    StepKind{"Split", &add_split},
    StepKind{"Digits", &add_digits},
    StepKind{"BertPreTokenizer", &add_bert},
    StepKind{"Whitespace", &add_words},
    StepKind{"WhitespaceSplit", &add_white_space_split},
    StepKind{"Punctuation", &add_punctuation},
    StepKind{"CharDelimiterSplit", &add_delimiter},
    StepKind{"FixedLength", &add_fixed_length},
    StepKind{"UnicodeScripts", &add_script_runs},
};

}  // namespace

std::shared_ptr<const Pattern> read_pattern(const JsonPart& holder) {
  const JsonPart pattern = holder.require("pattern");
  if (pattern.member("Regex")) return std::make_shared<Regex>(pattern.text("Regex"));
  const std::string text = pattern.text("String");
  if (text.empty()) holder.refuse("the pattern of " + holder.type() + " is empty");
  return std::make_shared<Literal>(text);
}

ReadSteps read_steps(const JsonPart& pre_tokenizer) {
  ReadSteps out;
  for_each_in_sequence(pre_tokenizer, "pretokenizers", [&](const JsonPart& part) {
    const std::string type = part.type();
    for (const StepKind& kind : kStepKinds) {
      if (type != kind.type) continue;
      if (out.ends_in_byte_letters) {  // what follows sees the letters
        out.steps.push_back({.rewrite = byte_letters_of_pieces()});
        out.ends_in_byte_letters = false;
      }
      return kind.add(part, out);
    }
    part.unsupported("the pre-tokenizer " + type);
  });
  return out;
}

}  // namespace ds
