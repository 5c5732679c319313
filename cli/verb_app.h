// What a verb says of its options and words, and what a line makes of them. CLI11 does the work
// behind this face, in one file alone: each file that includes its headers takes seconds to
// compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace ds {

// Looks at the text of a value before it is taken. What it says of itself stands in the help behind
// the type.
class ValueCheck {
 public:
  // Returns what is wrong with a text, nothing where it is taken.
  using Complaint = std::function<std::string(const std::string& text)>;

  ValueCheck(Complaint complaint, const std::string& says);
  explicit ValueCheck(std::shared_ptr<const CLI::Validator> validator)
      : validator_(std::move(validator)) {}

  const CLI::Validator& validator() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};

// An option, a flag, or a word at a place. What is said of it returns it.
class VerbOption {
 public:
  explicit VerbOption(CLI::Option& option) : option_(option) {}

  VerbOption* check(const ValueCheck& check);
  VerbOption* check(const ValueCheck::Complaint& complaint);
  VerbOption* type_name(const std::string& name);
  VerbOption* group(const std::string& name);
  VerbOption* required();
  VerbOption* capture_default_str();
  VerbOption* default_str(const std::string& text);
  VerbOption* delimiter(char separator);
  VerbOption* allow_extra_args(bool allowed);
  VerbOption* take_all();
  VerbOption* excludes(const VerbOption* other);

  std::vector<std::string> names() const;  // "-n", "--lines"; of a place one name without dashes
  std::vector<std::string> long_names() const;  // without the dashes
  bool is_place() const;
  bool is_required() const;
  int most_values() const;             // 0: a flag
  std::string described_type() const;  // with what checks say of themselves: "TEXT:{auto,never}"
  const std::string& description() const;
  std::string default_value() const;
  const std::string& group_name() const;

 private:
  friend class VerbApp;
  CLI::Option& option_;
};

// Types of the variables that options fill. Another one is added here and in verb_app.cpp.
template <class Value, class... Types>
concept OneOf = (std::same_as<Value, Types> || ...);
template <class Value>
concept OptionValue = OneOf < Value,
        std::string, std::optional<std::string>, std::vector<std::string>,
int, std::optional<int>, std::vector<int>, int64_t, std::optional<int64_t>, uint64_t, double,
    std::optional < double >>
    ;

// The options of one verb, in the order in which they were added. It points at the variables that
// it was told of.
class VerbApp {
 public:
  VerbApp(const std::string& description, const std::string& name);
  ~VerbApp();
  VerbApp(const VerbApp&) = delete;  // variables belong to one line
  VerbApp& operator=(const VerbApp&) = delete;

  // `names` as CLI11 has them: "-o,--output"; without dashes it is a place.
  template <OptionValue Value>
  VerbOption* add_option(const std::string& names, Value& value, const std::string& description);
  VerbOption* add_option(const std::string& names,
                         const std::function<void(const std::string&)>& take,
                         const std::string& description);
  VerbOption* add_flag(const std::string& names, bool& value, const std::string& description);
  void remove_option(const std::string& name);
  void footer(const std::string& text);
  // Values of options with these type names become what `rewrite` makes of them, before they are
  // checked.
  void rewrite_values(std::span<const std::string_view> types,
                      const std::function<std::string(const std::string&)>& rewrite);
  void final_callback(const std::function<void()>& check);

  enum class Outcome { kValues, kHelp };
  // Fills the variables. Throws UsageError.
  Outcome parse(std::vector<std::string> words);
  std::vector<std::string> remaining() const;  // words that parse() had no place for
  std::string help() const;

  const std::list<VerbOption>& options() const { return options_; }  // --help is the first
  const VerbOption* find_option(const std::string& name) const;      // null where there is none
  std::string name() const;
  std::string description() const;
  std::string footer_text() const;

 private:
  VerbOption* added(CLI::Option* option);

  std::unique_ptr<CLI::App> app_;
  std::list<VerbOption> options_;
};

}  // namespace ds
