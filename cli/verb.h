// The verbs of dslaunch as one table: parsing, help, completion and manual pages are made from it.
// What a verb does is elsewhere: in the program that carries it out.
#pragma once

#include <any>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ds {

class VerbApp;
struct Verb;

// The command line of one verb: what it was told of its options, and the values that parsing fills.
class VerbLine {
 public:
  VerbLine(const Verb& verb, std::any values);
  ~VerbLine();
  VerbLine(const VerbLine&) = delete;  // the description points at the values
  VerbLine& operator=(const VerbLine&) = delete;

  VerbApp& app() const { return *app_; }
  // `Values` is the type that the verb's row names.
  template <class Values>
  Values& values() {
    return std::any_cast<Values&>(values_);
  }
  template <class Values>
  const Values& values() const {
    return std::any_cast<const Values&>(values_);
  }

 private:
  std::any values_;
  std::unique_ptr<VerbApp> app_;
};

// dslaunch becomes rankd for what needs the engine.
enum class Program { kLauncher, kEngine };
enum class Listing { kListed, kHidden };

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line: the list of verbs, and the title of its own help
  std::unique_ptr<VerbLine> (*describe)(const Verb& verb);
  Program program = Program::kLauncher;
  Listing listing = Listing::kListed;
};

// In the order in which they are listed.
std::span<const Verb> verbs();
const Verb* find_verb(std::string_view name);  // null where there is none

// What a row of the table names: a new command line, described by `kDescribe`.
template <class Values, void (*kDescribe)(VerbApp&, Values&)>
std::unique_ptr<VerbLine> described(const Verb& verb) {
  auto line = std::make_unique<VerbLine>(verb, std::any(Values{}));
  kDescribe(line->app(), line->values<Values>());
  return line;
}

}  // namespace ds
